package dirblob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

var errDead = errors.New("the power is off")

// TestPowerLossKeepsWhatWasReported cuts the power at a random operation, again and again. What was
// reported must be there, whole; what was under way is as before or as asked.
func TestPowerLossKeepsWhatWasReported(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range testkit.Size(t, "blob.crashes") {
		losePower(t, rand.New(rand.NewPCG(seed, uint64(n))))
	}
}

func losePower(t *testing.T, rng *rand.Rand) {
	t.Helper()
	w, root := newWorld(t)
	last := rng.IntN(400)
	w.fail = func(n int, _ string) error {
		if n > last {
			return errDead
		}
		return nil
	}
	var writers []*writer
	s, err := w.open(t, root)
	if err == nil {
		writers = scribble(t, s, rng)
	}
	dir := t.TempDir()
	w.crash(t, rng, dir)
	after := open(t, dir)
	for _, writer := range writers {
		for key, states := range writer.may {
			got := textOf(t, after, key)
			if !contains(states, got) {
				t.Fatalf("power off after operation %d: %s is %s, and may be %s", last, key, got, states)
			}
		}
	}
	for e, err := range after.List(t.Context(), "", blob.ListOptions{}) {
		if err != nil || textOf(t, after, e.Key) == "" {
			t.Fatalf("list after power loss: %+v, %v", e, err)
		}
	}
	if err := after.sweep(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for names, err := range after.tmp.names() {
		t.Fatalf("left after the sweep: %q, %v", names, err)
	}
}

// writer changes objects of its own, until the power is off. An empty text is no object.
type writer struct {
	s   *Store
	rng *rand.Rand
	may map[string][]string
	tag map[string]blob.Tag
}

func scribble(t *testing.T, s *Store, rng *rand.Rand) (writers []*writer) {
	var done sync.WaitGroup
	for n := range 3 {
		w := &writer{s, rand.New(rand.NewPCG(rng.Uint64(), 1)), map[string][]string{}, map[string]blob.Tag{}}
		writers = append(writers, w)
		done.Go(func() {
			for step := 0; w.step(t.Context(), n, step) == nil; step++ {
			}
		})
	}
	done.Wait()
	return writers
}

func (w *writer) step(ctx context.Context, n, step int) error {
	key := []string{fmt.Sprintf("w%d", n), fmt.Sprintf("w%d/x/y", n), fmt.Sprintf("shared/deep/w%d", n), fmt.Sprintf("own%d/%s", n, strings.Repeat("z", 200))}[w.rng.IntN(4)]
	if w.may[key] == nil {
		w.may[key] = []string{""}
	}
	text := fmt.Sprintf("writer %d step %d %s", n, step, strings.Repeat("#", w.rng.IntN(2000)))
	was := w.may[key][0]
	w.may[key] = []string{was, text}
	var err error
	switch o := (blob.PutOptions{}); w.rng.IntN(6) {
	case 0:
		w.may[key][1] = ""
		if err = w.s.Delete(ctx, key); err == nil {
			w.may[key] = []string{""}
		}
	case 1:
		from := key + "-from"
		w.may[from] = append([]string{text, ""}, w.may[from]...)
		if _, err = w.s.Put(ctx, from, strings.NewReader(text), int64(len(text)), o); err != nil {
			return err
		}
		w.may[from] = []string{text}
		if err = w.s.Copy(ctx, from, key); err == nil {
			w.may[key] = []string{text}
			w.tag[key] = ""
		}
	default:
		switch {
		case was == "":
			o.IfAbsent = true
		case w.tag[key] != "":
			o.IfMatch = w.tag[key]
		}
		if w.tag[key], err = w.s.Put(ctx, key, strings.NewReader(text), int64(len(text)), o); err == nil {
			w.may[key] = []string{text}
		}
	}
	return err
}

func contains(states []string, got string) bool {
	for _, s := range states {
		if s == got {
			return true
		}
	}
	return false
}

func textOf(t *testing.T, s *Store, key string) string {
	t.Helper()
	object, err := s.Get(t.Context(), key, blob.GetOptions{})
	if errors.Is(err, blob.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	text, err := io.ReadAll(object.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEveryFailureLeavesAWholeObject fails each operation of each call in turn, as a full disk would.
func TestEveryFailureLeavesAWholeObject(t *testing.T) {
	long := strings.Repeat("new", 300_000)
	put := func(key string, o func(blob.Tag) blob.PutOptions) func(*Store, blob.Tag) error {
		return func(s *Store, tag blob.Tag) error {
			_, err := s.Put(t.Context(), key, struct{ io.Reader }{strings.NewReader(long)}, int64(len(long)), o(tag))
			return err
		}
	}
	plain := func(blob.Tag) blob.PutOptions { return blob.PutOptions{} }
	for name, c := range map[string]struct {
		key, was, is string
		call         func(*Store, blob.Tag) error
	}{
		"new":      {"x/y/new", "", long, put("x/y/new", plain)},
		"absent":   {"x/y/new", "", long, put("x/y/new", func(blob.Tag) blob.PutOptions { return blob.PutOptions{IfAbsent: true} })},
		"replaced": {"x/old", "old", long, put("x/old", plain)},
		"swapped":  {"x/old", "old", long, put("x/old", func(tag blob.Tag) blob.PutOptions { return blob.PutOptions{IfMatch: tag} })},
		"copied":   {"c/copy", "", "old", func(s *Store, _ blob.Tag) error { return s.Copy(t.Context(), "x/old", "c/copy") }},
		"deleted":  {"x/old", "old", "", func(s *Store, _ blob.Tag) error { return s.Delete(t.Context(), "x/old") }},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; failNth(t, n, c.key, c.was, c.is, c.call); n++ {
				if n > 1000 {
					t.Fatal("the call never ends")
				}
			}
		})
	}
}

// failNth reports whether the call had an nth operation to fail.
func failNth(t *testing.T, n int, key, was, is string, call func(*Store, blob.Tag) error) bool {
	t.Helper()
	w, root := newWorld(t)
	s, err := w.open(t, root)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := s.Put(t.Context(), "x/old", strings.NewReader("old"), 3, blob.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	begin, failed := w.ops, ""
	w.fail = func(at int, op string) error {
		if at != begin+n {
			return nil
		}
		failed = op
		return unix.ENOSPC
	}
	err = call(s, tag)
	if failed == "" {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	// What cleans up behind a call may fail without anybody's noticing.
	tidying := failed == "unlink" && is != "" || failed == "rmdir"
	if (err == nil) != tidying || err != nil && fault.CodeOf(err) != api.CodeBlobFull {
		t.Fatalf("operation %d (%s) failed, and the call says %v", n, failed, err)
	}
	if got := textOf(t, s, key); got != was && got != is {
		t.Fatalf("operation %d (%s) failed, and %s has %d bytes", n, failed, key, len(got))
	}
	for names, err := range s.tmp.names() {
		if failed != "unlink" {
			t.Fatalf("operation %d (%s) failed, and tmp has %q, %v", n, failed, names, err)
		}
	}
	if err := call(s, tagNow(t, s, key)); err != nil && !errors.Is(err, blob.ErrPrecondition) {
		t.Fatalf("after operation %d (%s) failed, again: %v", n, failed, err)
	}
	return true
}

func tagNow(t *testing.T, s *Store, key string) blob.Tag {
	object, err := s.Get(t.Context(), key, blob.GetOptions{})
	if err != nil {
		return ""
	}
	_ = object.Body.Close()
	return object.Tag
}

// TestDiskThatFailsNowAndThen holds every answer of a store on a bad disk against a model.
func TestDiskThatFailsNowAndThen(t *testing.T) {
	w, root := newWorld(t)
	s, err := w.open(t, root)
	if err != nil {
		t.Fatal(err)
	}
	w.fail = func(int, string) error {
		if rand.IntN(30) == 0 {
			return unix.EIO
		}
		return nil
	}
	if failed := blobtest.Storm(t, s); len(failed) == 0 {
		t.Error("nothing failed")
	}
}

// TestOpenThatFailsCanBeRepeated fails each operation of the first Open in turn.
func TestOpenThatFailsCanBeRepeated(t *testing.T) {
	for n := 1; ; n++ {
		w, root := newWorld(t)
		again, err := root.sub(".")
		if err != nil {
			t.Fatal(err)
		}
		failed := false
		w.fail = func(at int, _ string) error {
			if at != n {
				return nil
			}
			failed = true
			return unix.EIO
		}
		_, err = w.open(t, root)
		if !failed {
			return
		}
		s, twice := w.open(t, again)
		if twice != nil {
			t.Fatalf("operation %d failed (%v); again: %v", n, err, twice)
		}
		if _, err := s.Put(t.Context(), "x", bytes.NewReader(nil), 0, blob.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
