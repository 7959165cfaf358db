package dirblob

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// TestVersionsOutlivePowerLoss saves a tree again and again, prunes now and then, and cuts the power at a
// random operation. Every version that is listed then restores to what was saved, every one that was
// reported is listed, and the next push works.
func TestVersionsOutlivePowerLoss(t *testing.T) {
	testkit.Proves(t, "S7", "S17")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	committed := 0
	for n := range testkit.Size(t, "blob.versions") {
		s := &saver{rng: rand.New(rand.NewPCG(seed, uint64(n))), dir: t.TempDir(), saved: map[string]map[string]string{}}
		if n%3 == 2 {
			s.layout = workspace.Plain
		}
		committed += s.losePower(t)
	}
	if committed == 0 {
		t.Error("no version was ever there")
	}
}

// saver saves one tree until the power is off.
type saver struct {
	rng      *rand.Rand
	dir      string
	layout   workspace.Layout
	rounds   int
	saved    map[string]map[string]string // the tree of each push, by its note
	reported string                       // the note of the last one that was reported
}

func (s *saver) losePower(t *testing.T) (versions int) {
	t.Helper()
	w, root := newWorld(t)
	last := s.rng.IntN(600)
	w.fail = func(n int, _ string) error {
		if n > last {
			return errDead
		}
		return nil
	}
	if store, err := w.open(t, root); err == nil {
		s.work(t, store)
	}
	left := t.TempDir()
	w.crash(t, s.rng, left)
	r := &workspace.Repo{Store: open(t, left), Layout: s.layout}
	listed := map[string]bool{}
	for v, err := range r.Versions(t.Context()) {
		if err != nil {
			t.Fatalf("power off after operation %d: %v", last, err)
		}
		listed[v.Note] = true
		versions++
		dir := t.TempDir()
		if _, err := r.Restore(t.Context(), tree(t, dir), nil, v.ID, workspace.PullOptions{}); err != nil {
			t.Fatalf("power off after operation %d: %s: %v", last, v.Note, err)
		}
		if got := sums(t, dir); !maps.Equal(got, s.saved[v.Note]) {
			t.Fatalf("power off after operation %d: %s is %v, and was %v", last, v.Note, got, s.saved[v.Note])
		}
	}
	if s.reported != "" && !listed[s.reported] {
		t.Fatalf("power off after operation %d: %s was reported, and is not there: %v", last, s.reported, listed)
	}
	if _, err := r.Sync(t.Context(), tree(t, s.dir), nil, workspace.PushOptions{}); err != nil {
		t.Fatalf("power off after operation %d; the next push: %v", last, err)
	}
	if v, err := r.Verify(t.Context()); err != nil || len(v.Problems) > 0 {
		t.Fatalf("power off after operation %d: %+v, %v", last, v, err)
	}
	return versions
}

// work edits and pushes.
func (s *saver) work(t *testing.T, store *Store) {
	r := &workspace.Repo{Store: store, Layout: s.layout}
	d := tree(t, s.dir)
	var base *workspace.Index
	for {
		s.rounds++
		note := fmt.Sprint("round ", s.rounds)
		s.edit(t)
		s.saved[note] = sums(t, s.dir)
		res, err := r.Push(t.Context(), d, base, workspace.PushOptions{Note: note})
		if err != nil {
			if !errors.Is(err, errDead) {
				t.Fatal(err)
			}
			return
		}
		base, s.reported = res.Index, note
		if s.rounds%4 == 0 {
			if _, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 2}, Grace: time.Nanosecond}); err != nil {
				return
			}
		}
	}
}

func (s *saver) edit(t *testing.T) {
	t.Helper()
	for range 1 + s.rng.IntN(3) {
		path := filepath.Join(s.dir, fmt.Sprintf("d%d", s.rng.IntN(2)), fmt.Sprint("f", s.rng.IntN(4)))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("round %d %s", s.rounds, strings.Repeat("#", s.rng.IntN(5000)))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func tree(t *testing.T, dir string) *workspace.Dir {
	t.Helper()
	d, err := workspace.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// sums is the checksum of every file of a tree.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		got[strings.TrimPrefix(path, dir)] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
