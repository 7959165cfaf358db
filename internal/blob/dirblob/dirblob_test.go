package dirblob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/blobtest"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
)

// countIn makes a process of this test count up an object in a store.
const countIn = "BERTH_TEST_COUNT_IN"

const countSteps = 60

func TestMain(m *testing.M) {
	if dir := os.Getenv(countIn); dir != "" {
		os.Exit(countAlone(dir))
	}
	os.Exit(m.Run())
}

func countAlone(dir string) int {
	s, err := Open(context.Background(), dir)
	for n := 0; err == nil && n < countSteps; n++ {
		err = blobtest.CountUp(context.Background(), s, "shared/counter")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestProcessesCountTogether(t *testing.T) {
	dir, processes := t.TempDir(), 4
	var done sync.WaitGroup
	for range processes {
		done.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), countIn+"="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	done.Wait()
	if got := textOf(t, open(t, dir), "shared/counter"); got != fmt.Sprint(processes*countSteps) {
		t.Errorf("%d processes counted to %d each, and the counter is %s", processes, countSteps, got)
	}
}

func TestTwoStoresOnOneDirectoryRace(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	blobtest.Race(t, a, b)
	if failed := blobtest.Count(t, a, b); failed > 0 {
		t.Errorf("%d steps failed", failed)
	}
}

func put(t *testing.T, s *Store, key, text string) blob.Tag {
	t.Helper()
	tag, err := s.Put(t.Context(), key, strings.NewReader(text), int64(len(text)), blob.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

func TestTagsOutliveTheStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	tag := put(t, s, "a/b", "text")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if _, err := s.Get(t.Context(), "a/b", blob.GetOptions{IfNoneMatch: tag}); !errors.Is(err, blob.ErrNotModified) {
		t.Errorf("after opening again: %v", err)
	}
}

// Equal bytes written anew are another state, however fast, and although file numbers come back.
func TestNoTagComesBack(t *testing.T) {
	s := open(t, t.TempDir())
	seen := map[blob.Tag]int{}
	for n := range 500 {
		tag := put(t, s, "x", "always the same")
		if before, ok := seen[tag]; ok {
			t.Fatalf("write %d has the tag of write %d", n, before)
		}
		seen[tag] = n
		if n%3 == 0 {
			if err := s.Delete(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestStampsOnlyGrow(t *testing.T) {
	s := stamps{last: time.Now().Add(time.Hour)} // a clock that was set back
	for range 100 {
		if before := s.last; !s.next().After(before) {
			t.Fatal("a stamp is not later than the one before")
		}
	}
}

func TestFoldersComeAndGo(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	var done sync.WaitGroup
	for n, s := range []*Store{a, b, a, b} {
		key := fmt.Sprintf("come/and/go/%d", n)
		done.Go(func() {
			for range 200 {
				if _, err := s.Put(t.Context(), key, strings.NewReader(key), int64(len(key)), blob.PutOptions{}); err != nil {
					t.Error(err)
					return
				}
				if got := textOf(t, s, key); got != key {
					t.Errorf("%s is %q", key, got)
				}
				if err := s.Delete(t.Context(), key); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	left, err := os.ReadDir(filepath.Join(dir, objectsName))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestMoreFoldersThanAreKeptOpen(t *testing.T) {
	s := open(t, t.TempDir())
	for round := range 2 {
		for n := range maxHandles + 50 {
			put(t, s, fmt.Sprintf("f%d/x", n), fmt.Sprint(round))
		}
	}
	if len(s.dirs.open) > maxHandles {
		t.Errorf("%d folders are open", len(s.dirs.open))
	}
	if got := textOf(t, s, "f0/x"); got != "1" {
		t.Errorf("f0/x is %q", got)
	}
}

func TestFilesAreSentByTheKernel(t *testing.T) {
	s := open(t, t.TempDir())
	text := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	path := filepath.Join(t.TempDir(), "from")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if _, err := s.Put(t.Context(), "x", from, int64(len(text)), blob.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "y", from, 1, blob.PutOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that is at its end: %v", err)
	}
	object, err := s.Get(t.Context(), "x", blob.GetOptions{Offset: 16, Length: 1600})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	to, err := os.Create(filepath.Join(t.TempDir(), "to"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if n, err := io.Copy(to, object.Body); n != 1600 || err != nil {
		t.Errorf("copied %d, %v", n, err)
	}
	if got, err := os.ReadFile(to.Name()); err != nil || !bytes.Equal(got, text[16:1616]) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// An object that somebody cut short is never a short success.
func TestObjectsCutShort(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "x", strings.Repeat("x", 100))
	for name, drain := range map[string]func(io.Reader) error{
		"read": func(r io.Reader) error { _, err := io.ReadAll(r); return err },
		"copy": func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err },
	} {
		object, err := s.Get(t.Context(), "x", blob.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		object.Body.(*body).left += 7 // as if it had been longer when it was opened
		if err := drain(object.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
		_ = object.Body.Close()
	}
}

// A file may have so many names and no more; then the bytes are copied.
func TestCopiesWithoutLinks(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, "x", "text")
	s.objects = noLinks{s.objects}
	if err := s.Copy(t.Context(), "x", "y/z"); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, s, "y/z"); got != "text" {
		t.Errorf("the copy is %q", got)
	}
}

type noLinks struct{ folder }

func (n noLinks) sub(path string) (folder, error) {
	f, err := n.folder.sub(path)
	return noLinks{f}, err
}

func (noLinks) link(string, folder, string) error { return unix.EMLINK }

func TestSweepSparesTheLiving(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	tmp := filepath.Join(dir, tmpName, "left")
	if err := os.WriteFile(tmp, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before time.Time
		kept   bool
	}{{time.Now().Add(-grace), true}, {time.Now().Add(time.Minute), false}} {
		if err := s.sweep(t.Context(), c.before); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(tmp); (err == nil) != c.kept {
			t.Errorf("before %v: %v", c.before, err)
		}
	}
}

func TestListHoldsAFewNames(t *testing.T) {
	s := open(t, t.TempDir())
	s.batch = 3
	var want []string
	for n := range 50 {
		key := fmt.Sprintf("f%d/%02d", n/25, n)
		put(t, s, key, key)
		want = append(want, key)
	}
	long := strings.Repeat("g", 128)
	for _, key := range []string{long, long + "/a", long + "/b", long + "1", long + "2"} {
		put(t, s, key, key)
		want = append(want, key)
	}
	for batch := 1; batch < 30; batch++ {
		s.batch = batch
		var got []string
		for e, err := range s.List(t.Context(), "", blob.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Key)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("with %d names at once: %v", batch, got)
		}
	}
}

// TestListOfAHugeFolder lists a folder in memory that does not grow with it.
func TestListOfAHugeFolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "huge/first", "x")
	n := testkit.Size(t, "blob.folder")
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, objectsName, "huge.d", fmt.Sprintf("%08d.o", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.batch = min(s.batch, n/8)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	count, last, peak := 0, "", uint64(0)
	for e, err := range s.List(t.Context(), "huge/", blob.ListOptions{}) {
		if err != nil || e.Key <= last {
			t.Fatalf("%s after %s, %v", e.Key, last, err)
		}
		if count++; count%(n/20) == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
		}
		last = e.Key
	}
	if count != n+1 {
		t.Errorf("%d of %d are listed", count, n+1)
	}
	// A name and what holds it are some 100 bytes.
	if most := uint64(2*s.batch*200 + 1<<20); peak > most {
		t.Errorf("listing took %d bytes; %d names are to be held at once, which is %d", peak, 2*s.batch, most)
	}
}

func TestLinksAndPipesAreRefused(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(objects string) error{
		"link":   func(at string) error { return os.Symlink(outside, at+"/a.d/x.o") },
		"pipe":   func(at string) error { return unix.Mkfifo(at+"/a.d/x.o", 0o600) },
		"folder": func(at string) error { return os.Mkdir(at+"/a.d/x.o", 0o700) },
		"link folder": func(at string) error {
			return errors.Join(os.RemoveAll(at+"/a.d"), os.Symlink(filepath.Dir(outside), at+"/a.d"))
		},
		"pipe folder": func(at string) error { return errors.Join(os.RemoveAll(at+"/a.d"), unix.Mkfifo(at+"/a.d", 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			put(t, s, "a/b", "x")
			put(t, s, "good", "x")
			s.dirs.close() // as another process would find it
			if err := plant(filepath.Join(dir, objectsName)); err != nil {
				t.Fatal(err)
			}
			tries := map[string]error{"copy": s.Copy(t.Context(), "a/x", "c")}
			_, tries["get"] = s.Get(t.Context(), "a/x", blob.GetOptions{})
			_, tries["put if match"] = s.Put(t.Context(), "a/x", strings.NewReader("x"), 1, blob.PutOptions{IfMatch: "x"})
			_, tries["put if absent"] = s.Put(t.Context(), "a/x", strings.NewReader("x"), 1, blob.PutOptions{IfAbsent: true})
			for e, err := range s.List(t.Context(), "", blob.ListOptions{}) {
				if tries["list"] = err; e.Key == "a/x" {
					t.Errorf("it is listed as %+v", e)
				}
				if err != nil {
					break
				}
			}
			for what, err := range tries {
				if fault.CodeOf(err) != api.CodeBlobDamaged && !(what == "copy" && name == "folder" && err != nil) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if left, _ := os.ReadDir(filepath.Join(dir, tmpName)); len(left) > 0 {
				t.Errorf("tmp has %v", left)
			}
			if strings.HasSuffix(name, "folder") && name != "folder" {
				if _, err := s.Put(t.Context(), "a/new", strings.NewReader("x"), 1, blob.PutOptions{}); fault.CodeOf(err) != api.CodeBlobDamaged {
					t.Errorf("put below it: %v", err)
				}
			}
		})
	}
	if left, err := os.ReadDir(filepath.Dir(outside)); err != nil || len(left) != 1 {
		t.Errorf("outside there is %v, %v", left, err)
	}
}

func TestForeignNamesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "a/b", "x")
	for _, name := range []string{"README", "x", ".o", "..o", "bad\n.o", strings.Repeat("y", 200) + ".o", strings.Repeat("y", 10) + ".p", "a.d/.DS_Store"} {
		if err := os.WriteFile(filepath.Join(dir, objectsName, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, objectsName, "empty.d", "deeper.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, o := range []blob.ListOptions{{}, {Folders: true}} {
		for e, err := range s.List(t.Context(), "", o) {
			if err != nil || e.Key != "a/b" && e.Key != "a/" {
				t.Errorf("listed %+v, %v", e, err)
			}
		}
	}
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(dir string) error
		says    string
	}{
		"a file":        {func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }, "not a directory"},
		"something":     {func(dir string) error { return os.WriteFile(dir+"/thesis.txt", nil, 0o600) }, "it is not empty and no object store"},
		"newer":         {func(dir string) error { return os.WriteFile(dir+"/format", []byte("berth objects 2\n"), 0o600) }, "this Berth knows"},
		"empty format":  {func(dir string) error { return os.WriteFile(dir+"/format", nil, 0o600) }, "this Berth knows"},
		"linked":        {func(dir string) error { return os.Symlink("/", dir+"/objects") }, "not a directory"},
		"linked format": {func(dir string) error { return os.Symlink("/etc/passwd", dir+"/format") }, "too many levels of symbolic links"},
	} {
		dir := t.TempDir()
		if err := c.prepare(dir); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), dir)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if s := open(t, t.TempDir()+"/not/yet/there"); !strings.HasPrefix(s.String(), "file:///") {
		t.Errorf("its address is %s", s)
	}
}
