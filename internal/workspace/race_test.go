package workspace_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// Prunes that run while pushes do never break a version that is listed, though they delete at once what no
// version refers to.
func TestPruneRacesPushes(t *testing.T) {
	testkit.Proves(t, "S17")
	eachStore(t, pruneAndPush)
}

func pruneAndPush(t *testing.T, s blob.Store) {
	r, dir := &workspace.Repo{Store: s}, t.TempDir()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 3}, Grace: time.Nanosecond})
			if err != nil && !errors.Is(err, blob.ErrPrecondition) && !errors.Is(err, blob.ErrNotFound) {
				t.Error(err)
				return
			}
		}
	})
	var index *workspace.Index
	pushed := 0
	for i := range 4 * testkit.Size(t, "i8.rounds") {
		write(t, dir, map[string]string{"changing": fmt.Sprint(i), fmt.Sprint("kept", i%10): fmt.Sprint("k", i/50)})
		res, err := r.Sync(t.Context(), open(t, dir), index, workspace.PushOptions{})
		if errors.Is(err, workspace.ErrMoved) {
			continue
		}
		must(t, err)
		index = res.Index
		pushed++
	}
	close(stop)
	wg.Wait()
	v, err := r.Verify(t.Context())
	if err != nil || v.Versions == 0 || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	t.Logf("%d pushes", pushed)
}

// A push that sleeps for longer than any grace does not commit a version whose bytes were collected.
func TestPushThatSleptBeginsAgain(t *testing.T) {
	testkit.Proves(t, "S17")
	for _, layout := range []workspace.Layout{workspace.Packed, workspace.Plain} {
		m := newMemory()
		r, a := &workspace.Repo{Store: m, Layout: layout}, t.TempDir()
		write(t, a, map[string]string{"f": "1"})
		first := push(t, r, a, nil)
		write(t, a, map[string]string{"f": "2", "odd\n": "in a pack"})
		slept := false
		m.hook = func(op, key string) error {
			if op == "put" && key == "HEAD" && !slept {
				slept = true
				for range 2 {
					if _, err := r.Prune(t.Context(), workspace.PruneOptions{}); err != nil {
						t.Error(err)
					}
					m.ago += 25 * time.Hour
				}
			}
			return nil
		}
		if res, err := r.Push(t.Context(), open(t, a), first.Index, workspace.PushOptions{}); !errors.Is(err, workspace.ErrMoved) {
			t.Errorf("%s: %+v, %v", layout, res, err)
		}
		if v, err := r.Verify(t.Context()); err != nil || v.Versions != 1 || len(v.Problems) > 0 {
			t.Errorf("%s: %+v, %v", layout, v, err)
		}
		if _, err := r.Sync(t.Context(), open(t, a), first.Index, workspace.PushOptions{}); err != nil {
			t.Error(err)
		}
		b := t.TempDir()
		pull(t, r, b, nil, workspace.PullOptions{})
		same(t, a, b)
	}
}

// A folder that is swapped for a link all the time never leads a push or a restore out of the tree.
func TestSwapOfFolderAndLinkStaysInside(t *testing.T) {
	testkit.Proves(t, "S12")
	outside := t.TempDir()
	write(t, outside, map[string]string{"f": "foreign bytes"})
	m := newMemory()
	r, a := &workspace.Repo{Store: m}, t.TempDir()
	write(t, a, map[string]string{"d/f": "own", "k": "1"})
	good := push(t, r, a, nil)
	must(t, os.Symlink(outside, filepath.Join(a, "l")))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	swaps := 0
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(a, "d"), unix.AT_FDCWD, filepath.Join(a, "l"), unix.RENAME_EXCHANGE)
				swaps++
			}
		}
	})
	end := time.Now().Add(time.Duration(testkit.Size(t, "workspace.swap_ms")) * time.Millisecond)
	rounds := 0
	for ; time.Now().Before(end); rounds++ {
		s := &workspace.Repo{Store: newMemory()}
		if _, err := s.Push(t.Context(), open(t, a), nil, workspace.PushOptions{}); err != nil {
			t.Fatal(err)
		}
		for key, o := range s.Store.(*memory).data {
			if bytes.Contains(o.data, []byte("foreign bytes")) {
				t.Fatalf("foreign bytes in %s", key)
			}
		}
		_, _ = r.Restore(t.Context(), open(t, a), nil, good.Version, workspace.PullOptions{})
		_ = os.MkdirAll(filepath.Join(a, "d"), 0o755)
		_ = os.Symlink(outside, filepath.Join(a, "l"))
	}
	close(stop)
	wg.Wait()
	if got := tree(t, outside); len(got) != 1 || read(t, outside, "f") != "foreign bytes" {
		t.Errorf("outside: %v", got)
	}
	t.Logf("%d swaps, %d rounds", swaps, rounds)
}

// A link is saved as what it says, never as what it leads to.
func TestLinkIsOnlyText(t *testing.T) {
	testkit.Proves(t, "S9")
	m := newMemory()
	r, a := &workspace.Repo{Store: m}, t.TempDir()
	must(t, os.Symlink("/etc/passwd", filepath.Join(a, "l")), os.Symlink("/etc", filepath.Join(a, "d")), os.Symlink("l", filepath.Join(a, "loop")))
	push(t, r, a, nil)
	for key, o := range m.data {
		if bytes.Contains(o.data, []byte("root:")) {
			t.Errorf("%s has the file", key)
		}
	}
	b := t.TempDir()
	must(t, os.Symlink("/etc", filepath.Join(b, "d")))
	write(t, a, map[string]string{"x/passwd": "mine"})
	remove(t, a, "d")
	must(t, os.Rename(filepath.Join(a, "x"), filepath.Join(a, "d")))
	pushAny(t, r, a)
	_, err := r.Restore(t.Context(), open(t, b), nil, "", workspace.PullOptions{})
	must(t, err)
	same(t, a, b)
}

// Two files with the same MD5 and size are told apart.
func TestForgedMD5IsSeen(t *testing.T) {
	testkit.Proves(t, "S1")
	eachStore(t, func(t *testing.T, store blob.Store) {
		one, err := hex.DecodeString("d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70")
		must(t, err)
		two := bytes.Clone(one)
		for at, is := range map[int]byte{19: 0x07, 45: 0xf1, 59: 0x72, 83: 0x34, 109: 0x28, 123: 0xab} {
			two[at] = is
		}
		r, a, b := &workspace.Repo{Store: store}, t.TempDir(), t.TempDir()
		write(t, a, map[string]string{"f": string(one), "g": "1", "h": "2"})
		first := push(t, r, a, nil)
		got := pull(t, r, b, nil, workspace.PullOptions{})
		st, err := os.Stat(filepath.Join(a, "f"))
		must(t, err)
		write(t, a, map[string]string{"f": string(two)})
		must(t, os.Chtimes(filepath.Join(a, "f"), st.ModTime(), st.ModTime()))
		second := push(t, r, a, first.Index)
		if !second.New || second.Stats.FilesUploaded != 1 {
			t.Fatal("it was not seen")
		}
		was, is := first.Index.Entries[0], second.Index.Entries[0]
		if was.Sum.MD5 != is.Sum.MD5 || was.Sum.SHA256 == is.Sum.SHA256 {
			t.Fatal("these are no such files")
		}
		pull(t, r, b, got.Index, workspace.PullOptions{})
		same(t, a, b)
		write(t, b, map[string]string{"f": string(one)})
		must(t, os.Chtimes(filepath.Join(b, "f"), st.ModTime(), st.ModTime()))
		_, err = r.Restore(t.Context(), open(t, b), nil, "", workspace.PullOptions{})
		must(t, err)
		same(t, a, b)
	})
}

// A workspace that is too large is refused before anything is read, and so is a version.
func TestTooLarge(t *testing.T) {
	testkit.Proves(t, "S12")
	m := newMemory()
	r, a := &workspace.Repo{Store: m}, t.TempDir()
	write(t, a, map[string]string{"f": "1", "g": "2", "d/h": "3"})
	must(t, os.WriteFile(filepath.Join(a, "sparse"), nil, 0o644), os.Truncate(filepath.Join(a, "sparse"), 1<<40))
	_, err := r.Push(t.Context(), open(t, a), nil, workspace.PushOptions{})
	wantCode(t, err, api.CodeWorkspaceTooLarge)
	remove(t, a, "sparse")
	_, err = r.Push(t.Context(), open(t, a), nil, workspace.PushOptions{MaxEntries: 3})
	wantCode(t, err, api.CodeWorkspaceTooLarge)
	if len(m.data) > 0 {
		t.Error("something was stored")
	}
	push(t, r, a, nil)
	for _, limits := range []workspace.Limits{{Entries: 3}, {Bytes: 2}} {
		q, b := &workspace.Repo{Store: m, Limits: limits}, t.TempDir()
		_, err = q.Pull(t.Context(), open(t, b), nil, workspace.PullOptions{})
		wantCode(t, err, api.CodeWorkspaceTooLarge)
		if len(tree(t, b)) > 0 {
			t.Error("something was written")
		}
	}
}

// A tree of thousands of folders within each other is saved and restored; deeper ones are named.
func TestDeepTree(t *testing.T) {
	r, a, b := &workspace.Repo{Store: newMemory()}, t.TempDir(), t.TempDir()
	levels := testkit.Size(t, "workspace.levels")
	deep := func(levels int, name string) {
		fd, err := unix.Open(a, unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		for range levels {
			if err := unix.Mkdirat(fd, name, 0o755); err != nil && err != unix.EEXIST {
				t.Fatal(err)
			}
			next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
			must(t, err, unix.Close(fd))
			fd = next
		}
		f, err := unix.Openat(fd, "f", unix.O_CREAT|unix.O_WRONLY, 0o644)
		must(t, err)
		_, err = unix.Write(f, []byte("deep"))
		must(t, err, unix.Close(f), unix.Close(fd))
	}
	deep(levels, "d")
	res := push(t, r, a, nil)
	if len(res.Index.Entries) != levels+1 || len(res.Skipped) > 0 {
		t.Errorf("%d entries, skipped %+v", len(res.Index.Entries), res.Skipped)
	}
	got := pull(t, r, b, nil, workspace.PullOptions{})
	if again := push(t, r, b, got.Index); again.New {
		t.Error("what was restored is not what was saved")
	}
	deep(300, strings.Repeat("x", 100))
	if res := push(t, r, a, res.Index); len(res.Skipped) != 1 || !res.New {
		t.Errorf("skipped %+v", res.Skipped)
	}
}
