package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
)

// examine checks the health of an instance that is up, and records a problem in o. It checks only in the states
// running, unhealthy and error: in other states, such as starting or stopping, the instance need not answer.
func (w *work) examine(ctx context.Context, o *sandbox.Observation) {
	switch w.s.State {
	case sandbox.Unhealthy:
		w.countHealthRetry(ctx, fmt.Sprint(failure(w.s)))
	case sandbox.Running, sandbox.Failed:
	default:
		return
	}
	d, ok := driver.As[driver.Guester](w.driver)
	if !ok {
		return
	}
	short, cancel := context.WithTimeout(ctx, w.opts.ProbeFor)
	defer cancel()
	conn, err := d.Guest(short, driver.ID(w.s.Instance))
	if err == nil {
		defer conn.Close()
		err = conn.Ping(short)
	}
	switch {
	case ctx.Err() != nil: // the caller's context has ended, so that err says nothing about the health
	case err != nil:
		o.Ill, o.Detail = sandbox.IllInside, err.Error()
	case w.opts.Prober != nil:
		if err := w.opts.Prober.Probe(short, w.s, conn); err != nil {
			o.Ill, o.Detail = sandbox.AgentIsIll, err.Error()
		}
	}
}

// countHealthRetry logs and counts a repeated health check after a failed one.
func (w *work) countHealthRetry(ctx context.Context, why string) {
	w.opts.Metrics.HealthRetries.Inc()
	w.opts.Logger.InfoContext(ctx, telemetry.EventHealthRetry, "reason", w.redact(why))
}

// coldStart restores the workspace, runs the cold start hooks and starts the agent's server.
func (w *work) coldStart(ctx context.Context) error {
	id, pulling := driver.ID(w.instance()), error(nil)
	pull := func(ctx context.Context) error {
		pulling = w.restore(ctx, id)
		return pulling
	}
	if w.opts.Hooks == nil {
		_ = pull(ctx)
	} else if err := w.opts.Hooks.ColdStart(ctx, w.HandleAt(w.s, id), pull); err != nil && pulling == nil {
		return fmt.Errorf("run the cold start hook: %w", err)
	}
	if pulling != nil {
		return pulling
	}
	if w.opts.Prober == nil {
		return nil
	}
	if err := w.heal(ctx); err != nil {
		return fmt.Errorf("start the agent's server: %w", err)
	}
	return nil
}

// restore restores the workspace of an instance that starts.
func (w *work) restore(ctx context.Context, id driver.ID) error {
	restoring, unwatch := w.untilDiscarded(ctx, w.s.ID)
	synced, err := w.opts.Restorer.Restore(restoring, w.s, id)
	unwatch()
	if err != nil && errors.Is(context.Cause(restoring), sandbox.ErrOvertaken) {
		return sandbox.ErrOvertaken
	}
	if err != nil {
		return fmt.Errorf("restore the workspace: %w", err)
	}
	if w.synced = synced; !synced.SavedAt.IsZero() {
		w.restored = &sandbox.Restored{Version: synced.Version, SavedAt: synced.SavedAt, At: w.now()}
	}
	return nil
}

// heal starts the agent's server if it does not run, and waits until it is healthy.
func (w *work) heal(ctx context.Context) error {
	d, ok := driver.As[driver.Guester](w.driver)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.opts.HealFor, errors.New("the agent's server did not get well in time"))
	defer cancel()
	conn, err := d.Guest(ctx, driver.ID(w.instance()))
	if err != nil {
		return err
	}
	defer conn.Close()
	replaced, err := w.opts.Prober.Heal(ctx, w.s, conn)
	for range replaced {
		w.opts.Metrics.SessionReplacements.Inc()
		w.opts.Logger.InfoContext(ctx, telemetry.EventSessionReplaced)
	}
	if err != nil {
		return err
	}
	return w.waitHealthy(ctx, conn)
}

// firstHealPoll is the first pause between looks at a server that starts; it doubles up to Options.HealPoll.
const firstHealPoll = 50 * time.Millisecond

func (w *work) waitHealthy(ctx context.Context, conn guest.Conn) error {
	for pause := min(firstHealPoll, w.opts.HealPoll); ; pause = min(2*pause, w.opts.HealPoll) {
		err := w.opts.Prober.Probe(ctx, w.s, conn)
		if err == nil {
			return nil
		}
		w.countHealthRetry(ctx, err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}
