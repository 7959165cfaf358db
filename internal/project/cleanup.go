package project

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"golang.org/x/sync/errgroup"
)

// Cleaned is one sandbox that nobody used for long, and what became of it.
type Cleaned struct {
	Sandbox sandbox.Sandbox
	Want    sandbox.Want // what it was, or would be, asked to be: gone after a save, or stopped; empty: it could not be found out
	Done    bool
	Err     error
}

// How many sandboxes one cleanup lets go, and how many at once.
const (
	cleanupMost = 100
	cleanupWide = 8
)

// Cleanup lets go of what nobody used for so long, the longest first: terminated where it is saved before,
// else stopped, with its files kept. What is used or held meanwhile stays as it is. More says that there
// are others. A dry run only finds.
func (p Projects) Cleanup(ctx context.Context, idle time.Duration, dryRun bool) (cleaned []Cleaned, more bool, err error) {
	if idle <= 0 {
		return nil, false, sandbox.Errorf("clean up", api.CodeInvalidRequest, "expected a time that nobody used them for")
	}
	found, err := p.scope().Idle(ctx, sandbox.OwnerProject, idle, store.MaxLimit)
	if err != nil {
		return nil, false, err
	}
	results, did := make([]*Cleaned, len(found)), new(atomic.Int64)
	var g errgroup.Group
	g.SetLimit(cleanupWide)
	for i, s := range found {
		if s.Instance == "" {
			continue // it has nothing to let go of
		}
		if more = ctx.Err() != nil || did.Load() >= cleanupMost; more {
			break
		}
		g.Go(func() error {
			if results[i] = p.clean(ctx, s, idle, dryRun); results[i] != nil {
				did.Add(1)
			}
			return nil
		})
	}
	_ = g.Wait()
	for _, r := range results {
		if r != nil {
			cleaned = append(cleaned, *r)
		}
	}
	return cleaned, more, nil
}

// clean lets go of one sandbox. It returns nil where there is nothing to do about it.
func (p Projects) clean(ctx context.Context, s sandbox.Sandbox, idle time.Duration, dryRun bool) *Cleaned {
	c := &Cleaned{Sandbox: s}
	if c.Want, c.Err = p.lessOf(ctx, s); c.Err != nil {
		return c
	}
	switch {
	case c.Want == "":
		return nil
	case dryRun:
		return c
	}
	now, done, err := p.scope().Lapse(ctx, s, c.Want, fmt.Sprintf("not used for %s, in a cleanup", idle), p.actor)
	switch {
	case err != nil:
		c.Err = err
		return c
	case !done:
		return nil // it is in use again
	}
	c.Sandbox = now
	if now, err = p.handle(s).Reconcile(ctx); err == nil && !now.Settled() {
		err = sandbox.Errorf("clean up", api.CodeBusy, "sandbox %s was asked to be %s meanwhile", s.ID, now.Want)
	}
	if c.Done, c.Err = err == nil, err; c.Done {
		c.Sandbox = now
	}
	return c
}

// lessOf is what a sandbox can be asked to be without losing its files: gone if the engine would save it
// first, else stopped if the engine would stop it, else nothing. Whoever plans is asked, so that no second
// opinion on that can differ.
func (p Projects) lessOf(ctx context.Context, s sandbox.Sandbox) (sandbox.Want, error) {
	for _, less := range []struct {
		want sandbox.Want
		by   sandbox.Op
	}{{sandbox.WantGone, sandbox.OpSave}, {sandbox.WantStopped, sandbox.OpStop}} {
		s.Want, s.SkipSave = less.want, false
		look, err := p.engine.Look(ctx, s)
		if err == nil && unseen(look) {
			err = sandbox.Errorf("look at sandbox", api.CodeDriverUnreachable, "driver %s: %s", s.Spec.Driver, look.Seen.Detail)
		}
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(look.Would, func(step sandbox.Step) bool { return step.Op == less.by }) {
			return less.want, nil
		}
	}
	return "", nil
}

func unseen(l engine.Look) bool {
	return l.Seen.Sight == sandbox.Unreachable || l.Seen.Sight == sandbox.Unclear
}
