package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// A hundred edits that change neither size nor time are all in the next version, in every layout:
// what is copied from one version to the next is decided by checksums of our own.
func TestSameSizeEditsAreSaved(t *testing.T) {
	testkit.Proves(t, "S8")
	eachLayoutOn(t, "S3", func(t *testing.T, r *workspace.Repo) {
		a, b := t.TempDir(), t.TempDir()
		old := time.Now().Add(-48 * time.Hour)
		all := func(text string, n int) {
			for i := range n {
				path := filepath.Join("d", fmt.Sprint("f", i))
				write(t, a, map[string]string{path: fmt.Sprintf("%s %03d", text, i)})
				must(t, os.Chtimes(filepath.Join(a, path), old, old))
			}
		}
		all("was", 120)
		first := push(t, r, a, nil)
		pulled := pull(t, r, b, nil, workspace.PullOptions{})
		old = old.Add(-24 * time.Hour * time.Duration(len(r.Layout)/5)) // in one layout older still
		all("now", 100)
		next := push(t, r, a, first.Index)
		if next.Stats.FilesUploaded != 100 {
			t.Errorf("%+v", next.Stats)
		}
		pull(t, r, b, pulled.Index, workspace.PullOptions{})
		same(t, a, b)
		c := t.TempDir()
		pull(t, r, c, nil, workspace.PullOptions{})
		same(t, a, c)
	})
}

// What was a file becomes a folder, a link, and a file again, in the same place, in versions and in a tree
// that follows them, forwards and back.
func TestKindsChangePlaces(t *testing.T) {
	testkit.Proves(t, "S9")
	eachLayout(t, func(t *testing.T, r *workspace.Repo) {
		a, b := t.TempDir(), t.TempDir()
		write(t, a, map[string]string{"stays": "0", "stays too": "1"})
		swap := filepath.Join(a, "swap")
		var versions []string
		var want []map[string]string
		var base, here *workspace.Index
		for i, make := range []func(){
			func() { write(t, a, map[string]string{"swap": "a file"}) },
			func() { write(t, a, map[string]string{"swap/in/deep": "in a folder", "swap/b": "2"}) },
			func() { write(t, a, map[string]string{"swap": "a file again"}) },
			func() { must(t, os.Symlink("stays", swap)) },
			func() { must(t, os.Mkdir(swap, 0o750)) },
			func() { must(t, os.Symlink("nowhere", swap)) },
			func() { write(t, a, map[string]string{"swap": "a file"}) },
		} {
			must(t, os.RemoveAll(swap))
			make()
			res := push(t, r, a, base)
			base, versions, want = res.Index, append(versions, res.Version), append(want, tree(t, a))
			got := pull(t, r, b, here, workspace.PullOptions{AllowMassDelete: true})
			if here = got.Index; len(got.Conflicts) > 0 {
				t.Errorf("step %d: conflicts %q", i, got.Conflicts)
			}
			same(t, a, b)
		}
		for i := len(versions) - 1; i >= 0; i-- {
			_, err := r.Restore(t.Context(), open(t, b), nil, versions[i], workspace.PullOptions{})
			must(t, err)
			if got := tree(t, b); fmt.Sprint(got) != fmt.Sprint(want[i]) {
				t.Errorf("back at step %d: %v, not %v", i, got, want[i])
			}
		}
	})
}

// bottomless is a store in which an object is larger than any should be, and has no end.
type bottomless struct {
	*memory
	match string
	read  int64
}

type zeroes struct{ s *bottomless }

func (z zeroes) Read(p []byte) (int, error) { z.s.read += int64(len(p)); return len(p), nil }

func (s *bottomless) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	got, err := s.memory.Get(ctx, key, o)
	if err == nil && strings.Contains(key, s.match) {
		got.Size, got.Body = 1<<30, io.NopCloser(zeroes{s})
	}
	return got, err
}

// A manifest, a HEAD or a page of a gigabyte is refused before it is read.
func TestHugeObjectsAreNotRead(t *testing.T) {
	testkit.Proves(t, "S4", "S12")
	m := newMemory()
	whole := &workspace.Repo{Store: m}
	long(t, whole, 70, func(int) string { return "" })
	_, err := whole.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 69}}) // makes a page
	must(t, err)
	for _, match := range []string{workspace.StateFile, "HEAD", "log/"} {
		s := &bottomless{memory: m, match: match}
		r, dir := &workspace.Repo{Store: s}, t.TempDir()
		write(t, dir, map[string]string{"mine": "1"})
		_, err := r.Pull(t.Context(), open(t, dir), nil, workspace.PullOptions{})
		if match == "log/" {
			err = nil
			for _, failed := range r.Versions(t.Context()) {
				err = errors.Join(err, failed)
			}
		}
		wantCode(t, err, api.CodeBadManifest)
		if s.read > 1<<20 || read(t, dir, "mine") != "1" {
			t.Errorf("%s: %d bytes were read", match, s.read)
		}
	}
}

// After a restore that failed there is nothing known to push on top of: a push is refused, and what the
// store has stays what it is.
func TestPushAfterAFailedRestoreIsRefused(t *testing.T) {
	testkit.Proves(t, "S7")
	m := newMemory()
	r, a, b := &workspace.Repo{Store: m}, t.TempDir(), t.TempDir()
	write(t, a, map[string]string{"f": "1", "g": "2"})
	first := push(t, r, a, nil)
	m.change("packs/", func(data []byte) []byte { return data[:1] })
	if res, err := r.Pull(t.Context(), open(t, b), nil, workspace.PullOptions{Empty: true}); err == nil {
		t.Fatalf("restored: %+v", res)
	}
	if _, err := r.Push(t.Context(), open(t, b), nil, workspace.PushOptions{}); !errors.Is(err, workspace.ErrMoved) {
		t.Errorf("pushed: %v", err)
	}
	if v, _, err := r.Version(t.Context(), ""); err != nil || v.ID != first.Version {
		t.Errorf("the newest is %+v, %v", v, err)
	}
}
