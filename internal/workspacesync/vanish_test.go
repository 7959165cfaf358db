package workspacesync_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// vanishing is a driver that loses an instance as soon as its files are opened: they are moved away, and removed one
// by one.
type vanishing struct {
	dirs
	trash string
}

func (d vanishing) Files(ctx context.Context, id driver.ID, root string) (files.FS, error) {
	opened, err := d.dirs.Files(ctx, id, root)
	if err != nil {
		return nil, err
	}
	gone := filepath.Join(d.trash, string(id))
	if err := os.Rename(filepath.Join(d.root, string(id)), gone); err != nil {
		return nil, err
	}
	return opened, errors.Join(os.RemoveAll(filepath.Join(gone, "f")), os.RemoveAll(filepath.Join(gone, "g")))
}

// An instance that is lost while its files are read is not saved: the version would lack what was removed, and
// stand for all changes.
func TestInstanceLostDuringASave(t *testing.T) {
	testkit.Proves(t, "S18")
	for name, before := range map[string]int{"first version": 0, "next version": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			steady := w.Opts().Drivers["dirs"].(dirs)
			sb := w.restore(w.born(sandbox.Sandbox{}))
			w.write(sb, "f", "one")
			for range before {
				sb = w.save(sb)
				w.write(sb, "g", "two")
			}
			w.Opts().Drivers["dirs"] = vanishing{steady, t.TempDir()}
			if mark, err := w.Save(t.Context(), sb); err == nil {
				t.Errorf("saved as %+v", mark)
			}
			w.Opts().Drivers["dirs"] = steady
			sb = w.restore(w.born(sandbox.Sandbox{Synced: sb.Synced, Incarnation: sb.Incarnation}))
			if before == 0 && sb.Synced.Version != "" {
				t.Errorf("there is version %s", sb.Synced.Version)
			}
			if before > 0 {
				w.says(sb, "f", "one")
			}
		})
	}
}

// forgetful is a store that lists its objects and denies them.
type forgetful struct{ blob.Store }

func (forgetful) Get(context.Context, string, blob.GetOptions) (*blob.Object, error) {
	return nil, blob.ErrNotFound
}

// A store that denies what it has makes a start fail. It does not start with less than was saved.
func TestStoreThatDeniesItsObjects(t *testing.T) {
	testkit.Proves(t, "S18")
	w := newWorld(t)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	sb = w.save(sb)
	w.Opts().Store = forgetful{w.Opts().Store}
	if mark, err := w.Restore(t.Context(), w.born(sb), "i2"); err == nil {
		t.Errorf("restored %+v", mark)
	}
}
