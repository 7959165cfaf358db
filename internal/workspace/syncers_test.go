package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
	"github.com/berthdev/berth/internal/workspace"
)

// Four that work on one workspace at once, in two processes, lose nothing: whatever was in a tree when it
// was synced is in some version, and in the end all have the same.
func TestSyncersLoseNothing(t *testing.T) {
	testkit.Proves(t, "S15", "S11")
	for name, address := range map[string]func(t *testing.T) string{
		"directory": func(t *testing.T) string { return t.TempDir() },
		"S3":        func(t *testing.T) string { return s3test.New(t).URL("") },
	} {
		t.Run(name, func(t *testing.T) { loseNothing(t, address(t), testkit.Size(t, "i8.rounds")) })
	}
}

func loseNothing(t *testing.T, store string, rounds int) {
	processes := []string{t.TempDir(), t.TempDir()}
	var g errgroup.Group
	for _, dir := range processes {
		for n := range 2 {
			must(t, os.Mkdir(filepath.Join(dir, fmt.Sprint(n)), 0o755))
		}
		cmd := job{Do: "syncers", Store: store, Dir: dir, Rounds: rounds}.command(t)
		g.Go(func() error {
			_, _, err := ended(cmd, cmd.Run())
			return err
		})
	}
	must(t, g.Wait())

	r := &workspace.Repo{Store: openStore(t, store)}
	found := map[string]bool{}
	versions := 0
	dir := t.TempDir()
	for v, err := range r.Versions(t.Context()) {
		must(t, err)
		versions++
		_, err = r.Restore(t.Context(), open(t, dir), nil, v.ID, workspace.PullOptions{})
		must(t, err)
		for path := range tree(t, dir) {
			found[read(t, dir, path)] = true
		}
	}
	var dirs []string
	for _, process := range processes {
		for n := range 2 {
			dirs = append(dirs, filepath.Join(process, fmt.Sprint(n)))
			for i := range rounds {
				if text := scribble(dirs[len(dirs)-1], i); !found[text] {
					t.Errorf("%q is in no version", text)
				}
			}
		}
	}
	last := make([]*workspace.Index, len(dirs))
	for n := range dirs {
		base, err := workspace.LoadIndex(dirs[n] + ".index")
		must(t, err)
		res, err := r.Sync(t.Context(), open(t, dirs[n]), base, workspace.PushOptions{AllowMassDelete: true})
		must(t, err)
		last[n] = res.Index
	}
	for n := range dirs {
		pull(t, r, dirs[n], last[n], workspace.PullOptions{AllowMassDelete: true})
		same(t, dirs[0], dirs[n])
	}
	t.Logf("%d versions", versions)
}

// scribble is what the one who works in dir writes in a round.
func scribble(dir string, round int) string { return fmt.Sprintf("%s round %d", dir, round) }

// syncers is the work of two, in one process.
func (j *job) syncers(ctx context.Context, store blob.Store) error {
	var g errgroup.Group
	for n := range 2 {
		g.Go(func() error { return syncer(ctx, store, filepath.Join(j.Dir, fmt.Sprint(n)), j.Rounds) })
	}
	return g.Wait()
}

func syncer(ctx context.Context, store blob.Store, dir string, rounds int) error {
	r := &workspace.Repo{Store: store}
	d, err := workspace.OpenDir(dir)
	if err != nil {
		return err
	}
	h := fnv.New64()
	_, _ = h.Write([]byte(dir))
	rnd := rand.New(rand.NewPCG(h.Sum64(), 7))
	var base *workspace.Index
	for i := range rounds {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", rnd.IntN(6))), []byte(scribble(dir, i)), 0o644); err != nil {
			return err
		}
		for {
			res, err := r.Sync(ctx, d, base, workspace.PushOptions{AllowMassDelete: true})
			if errors.Is(err, workspace.ErrMoved) {
				continue // the others were faster five times
			}
			if err != nil {
				return err
			}
			base = res.Index
			break
		}
	}
	return base.Save(dir + ".index")
}
