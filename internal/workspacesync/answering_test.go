package workspacesync_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// falling is a store that stops answering with the first request that matches.
type falling struct {
	blob.Store
	at     func(method, key string) bool
	silent atomic.Bool
	reads  bool // it still answers reads
}

func (f *falling) answers(ctx context.Context, method, key string) error {
	if f.at != nil && f.at(method, key) {
		f.silent.Store(true)
	}
	if f.silent.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *falling) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if f.reads {
		return f.Store.Get(ctx, key, o)
	}
	if err := f.answers(ctx, "GET", key); err != nil {
		return nil, err
	}
	return f.Store.Get(ctx, key, o)
}

func (f *falling) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if err := f.answers(ctx, "PUT", key); err != nil {
		return "", err
	}
	return f.Store.Put(ctx, key, r, size, o)
}

// A transfer whose store stops answering holds the sandbox's lease for seconds, not for the minutes of the timeouts of
// requests. Nothing is taken for saved, and a repeat goes on.
func TestStoreThatFallsSilentInATransfer(t *testing.T) {
	testkit.Proves(t, "S7", "S13")
	w := newWorld(t)
	real := w.Opts().Store
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", strings.Repeat("one", 1<<20))
	sb = w.save(sb)
	w.write(sb, "g", strings.Repeat("two", 1<<20))
	pack := func(method, key string) bool {
		return strings.Contains(key, "/objects/") || strings.Contains(key, "packs/")
	}
	next := w.born(sandbox.Sandbox{Incarnation: sb.Incarnation, Synced: sb.Synced})
	for name, do := range map[string]func() error{
		"save to a store that still answers reads": func() error { _, err := w.Save(t.Context(), sb); return err },

		"save":    func() error { _, err := w.Save(t.Context(), sb); return err },
		"restore": func() error { _, err := w.Restore(t.Context(), next, driver.ID(next.Instance)); return err },
		"version": func() error { _, _, err := w.RestoreVersion(t.Context(), sb, sb, sb.Synced.Version); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &falling{Store: real, at: pack, reads: strings.Contains(name, "reads")}
			w.Opts().Store = f
			begun := time.Now()
			err := do()
			code := fault.CodeOf(err)
			if code != api.CodeBlobUnreachable && code != api.CodeSyncFailed || !f.silent.Load() || time.Since(begun) > 8*time.Second || !strings.Contains(err.Error(), "stopped answering") {
				t.Errorf("%s: after %s: %v", name, time.Since(begun), err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w.Opts().Store = &falling{Store: real, at: func(string, string) bool { return true }}
		if _, err := w.Save(t.Context(), sb); err == nil ||
			!strings.HasSuffix(err.Error(), "the object store did not answer within 4s (read .berth-ready, before anything was sent or changed)") {
			t.Errorf("from the start: %v", err)
		}
	})
	w.Opts().Store = real
	sb = w.save(sb)
	w.says(w.restore(w.born(sandbox.Sandbox{Incarnation: next.Incarnation, Synced: sb.Synced})), "g", strings.Repeat("two", 1<<20))
}
