package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
	"golang.org/x/sync/errgroup"
)

// Sandboxes are deleted while other clients use them by id and by name. After the answer to the delete no instance is
// made or started for that id again, every use of the id gets the error "deleted", and the owner gets a new sandbox.
func TestDeleteIsFinalUnderUse(t *testing.T) {
	testkit.Proves(t, "O1", "O6")
	for name, o := range map[string]fleet.Options{"postgres": {Replicas: 3}, "sqlite": {SQLite: true, Here: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet.New(t, o)
			g, ctx := errgroup.WithContext(t.Context())
			g.SetLimit(10)
			var mu sync.Mutex
			ended := map[string]time.Time{} // times of the answers to the deletes, by id
			for n := range testkit.Size(t, "i14.deletes") {
				g.Go(func() error {
					id, at, err := deleteUnderUse(ctx, f, fmt.Sprintf("owner-%d", n))
					mu.Lock()
					defer mu.Unlock()
					ended[id] = at
					return err
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, 30*time.Second, func() error { return f.Unsettled(t.Context()) })
			if found := fleet.Overlaps(f.Lives(), nil); len(found) > 0 {
				t.Errorf("an owner had two: %v", found)
			}
			for _, c := range f.Calls() {
				if at := ended[c.Key.Sandbox]; !at.IsZero() && c.Time.After(at) && (c.Op == fake.Create || c.Op == fake.Start) {
					t.Errorf("%s of sandbox %s %v after its delete was answered", c.Op, c.Key.Sandbox, c.Time.Sub(at))
				}
			}
		})
	}
}

// deleteWithin is much more time than a delete under use takes. The limit detects a delete that is undone repeatedly.
const deleteWithin = time.Minute

// deleteUnderUse makes the owner's sandbox and deletes it while three clients use it. It returns the sandbox's id and
// the time of the answer to the delete.
func deleteUnderUse(ctx context.Context, f *fleet.Fleet, owner string) (id string, at time.Time, err error) {
	whole, cancel := context.WithTimeoutCause(ctx, deleteWithin, fmt.Errorf("the sandbox is not deleted, or its owner not free, after %v", deleteWithin))
	defer cancel()
	c := f.Any()
	s, _, err := c.Sandboxes.Create(whole, api.CreateSandbox{Name: owner})
	if err != nil {
		return "", at, err
	}
	answered := make(chan struct{}) // closed when the delete is answered
	g, ctx := errgroup.WithContext(whole)
	for _, use := range []func() error{
		func() error { _, err := c.Sandboxes.Start(ctx, s.ID); return err },
		func() error { _, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{ID: s.ID}); return err },
		func() error { _, err := c.Sandboxes.Stop(ctx, s.ID); return err },
	} {
		g.Go(func() error { return untilDeleted(ctx, answered, use) })
	}
	g.Go(func() error { return renewed(ctx, c, owner, s.ID) })
	g.Go(func() error {
		err := c.Sandboxes.Delete(ctx, s.ID)
		at = time.Now()
		if err == nil {
			close(answered)
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return s.ID, at, fmt.Errorf("%s: %w", owner, err)
	}
	return s.ID, at, onlyDeleted(whole, c, s.ID)
}

// untilDeleted repeats the use until it fails because the sandbox is deleted, and then returns nil. It returns an error
// if a use succeeds that began after the answer to the delete.
func untilDeleted(ctx context.Context, answered <-chan struct{}, use func() error) error {
	for ctx.Err() == nil {
		final := false
		select {
		case <-answered:
			final = true
		default:
		}
		err := use()
		switch got := codeOf(err); {
		case got == api.CodeDeleted:
			return nil
		case err == nil && final:
			return errors.New("a use went well after the delete was answered")
		case got == "", got.Info().Retryable:
		case got != api.CodeNotRunning && got != api.CodeNameTaken: // another client stopped or replaced the sandbox
			return err
		}
	}
	return context.Cause(ctx)
}

// renewed requests the owner's sandbox until its id differs from old.
func renewed(ctx context.Context, c *client.Client, owner, old string) error {
	for ctx.Err() == nil {
		s, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: owner})
		if err != nil && !codeOf(err).Info().Retryable {
			return err
		}
		if err == nil && s.ID != old {
			return nil
		}
	}
	return context.Cause(ctx)
}

// onlyDeleted checks that every use of the sandbox gets the error "deleted".
func onlyDeleted(ctx context.Context, c *client.Client, id string) error {
	for name, use := range map[string]func() error{
		"get":       func() error { _, err := c.Sandboxes.Get(ctx, id); return err },
		"start":     func() error { _, err := c.Sandboxes.Start(ctx, id); return err },
		"stop":      func() error { _, err := c.Sandboxes.Stop(ctx, id); return err },
		"restart":   func() error { _, err := c.Sandboxes.Restart(ctx, id); return err },
		"terminate": func() error { _, err := c.Sandboxes.Terminate(ctx, id); return err },
		"ensure":    func() error { _, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{ID: id}); return err },
		"delete":    func() error { return c.Sandboxes.Delete(ctx, id) },
	} {
		if err := use(); codeOf(err) != api.CodeDeleted {
			return fmt.Errorf("%s of the deleted sandbox %s: %w", name, id, err)
		}
	}
	return nil
}
