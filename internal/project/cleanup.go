package project

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Cleaned is the result of a cleanup for one idle sandbox.
type Cleaned struct {
	Sandbox sandbox.Sandbox
	Want    sandbox.Want // the state that was requested, or would be in a dry run: gone or stopped; empty: Err is set
	Done    bool         // the sandbox has reached the state
	Err     error
}

// Limits of one cleanup.
const (
	maxCleaned  = 100 // sandboxes
	maxParallel = 8   // sandboxes at once
)

// Cleanup terminates or stops sandboxes that were idle for at least idle, the longest idle first. It terminates a sandbox
// that is saved first; otherwise it stops the sandbox and keeps its files. It does not change a sandbox that is in use
// or held again. more reports whether there are further idle sandboxes. A dry run changes nothing.
func (p Projects) Cleanup(ctx context.Context, idle time.Duration, dryRun bool) (cleaned []Cleaned, more bool, err error) {
	if idle <= 0 {
		return nil, false, fault.Errorf("clean up", api.CodeInvalidRequest, "expected the time that they were idle for")
	}
	found, err := p.scope().ListIdle(ctx, sandbox.OwnerProject, idle, store.MaxLimit)
	if err != nil {
		return nil, false, err
	}
	results, did := make([]*Cleaned, len(found)), new(atomic.Int64)
	var g errgroup.Group
	g.SetLimit(maxParallel)
	for i, s := range found {
		if s.Instance == "" {
			continue // it has no instance to end
		}
		if more = ctx.Err() != nil || did.Load() >= maxCleaned; more {
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

// clean terminates or stops one sandbox. It returns nil if there is nothing to do.
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
	now, done, err := p.scope().WantIfIdle(ctx, s, c.Want, fmt.Sprintf("not used for %s, in a cleanup", idle), p.actor)
	switch {
	case err != nil:
		c.Err = err
		return c
	case !done:
		return nil // it is in use again
	}
	c.Sandbox = now
	if now, err = p.handle(s).Reconcile(ctx); err == nil && !now.Settled() {
		err = fault.Errorf("clean up", api.CodeBusy, "the desired state of sandbox %s changed to %s", s.ID, now.Want)
	}
	if c.Done, c.Err = err == nil, err; c.Done {
		c.Sandbox = now
	}
	return c
}

// lessOf returns the state to request for an idle sandbox so that no files are lost: gone if the engine would save the
// sandbox first, otherwise stopped if the engine would stop it, otherwise "". It asks the engine for its plan, so that
// this package needs no second set of rules.
func (p Projects) lessOf(ctx context.Context, s sandbox.Sandbox) (sandbox.Want, error) {
	for _, less := range []struct {
		want sandbox.Want
		by   sandbox.Op
	}{{sandbox.WantGone, sandbox.OpSave}, {sandbox.WantStopped, sandbox.OpStop}} {
		s.Want, s.SkipSave = less.want, false
		look, err := p.engine.Inspect(ctx, s)
		if err == nil && unseen(look) {
			err = fault.Errorf("look at sandbox", api.CodeDriverUnreachable, "driver %s: %s", s.Spec.Driver, look.Seen.Detail)
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

func unseen(l engine.Inspection) bool {
	return l.Seen.Sight == sandbox.Unreachable || l.Seen.Sight == sandbox.Unclear
}
