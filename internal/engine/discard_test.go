package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// hangingRestorer restores nothing until its context ends.
type hangingRestorer struct{ hangs bool }

func (r *hangingRestorer) Restore(ctx context.Context, s sandbox.Sandbox, _ driver.ID) (sandbox.SyncMark, error) {
	if r.hangs {
		<-ctx.Done()
		return s.Synced, ctx.Err()
	}
	return sandbox.SyncMark{Incarnation: s.Incarnation}, nil
}

func (r *hangingRestorer) Save(_ context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
	return s.Synced, nil
}

// An end without a save does not wait for work on the sandbox's files that waits for the object store.
func TestDiscardEndsWorkOnFiles(t *testing.T) {
	testkit.Proves(t, "O1", "S7")
	synctest.Test(t, func(t *testing.T) {
		restorer := new(hangingRestorer)
		v := inMemory(func(o *engine.Options) { o.Restorer = restorer })
		defer v.run(t)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		syncing := v.ensure(t, sandbox.OwnerProject, "syncing")
		ended := make(chan error, 2)
		go func() {
			_, err := v.Handle("default", syncing.ID, "test").Exclusively(ctx, "sync", func(ctx context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
				<-ctx.Done()
				return s.Synced, ctx.Err()
			})
			ended <- err
		}()
		synctest.Wait()
		discard(ctx, t, v, syncing.ID)
		if err := <-ended; err == nil {
			t.Error("the sync succeeded")
		}

		starting := v.ensure(t, sandbox.OwnerProject, "starting")
		if _, err := v.Handle("default", starting.ID, "test").Terminate(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		restorer.hangs = true
		go func() {
			_, err := v.Handle("default", starting.ID, "test").Start(ctx)
			ended <- err
		}()
		synctest.Wait()
		discard(ctx, t, v, starting.ID)
		if err := <-ended; err == nil {
			t.Error("the start succeeded")
		}
	})
}

// discard deletes a sandbox without a save and checks that nothing is left of it soon.
func discard(ctx context.Context, t *testing.T, v *virtual, id string) {
	t.Helper()
	began := time.Now()
	s, err := v.Delete(ctx, "default", id, "test", true)
	if err != nil || s.State != sandbox.Terminated || time.Since(began) > 5*time.Second {
		t.Errorf("%s after %s, %v", s.State, time.Since(began), err)
	}
}
