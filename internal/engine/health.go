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

// examine looks into an instance that the driver says is up. Only a sandbox that should be well is
// examined: one that is coming or going has every right not to answer.
func (w *work) examine(ctx context.Context, o *sandbox.Observation) {
	switch w.s.State {
	case sandbox.Unhealthy:
		w.retried(ctx, fmt.Sprint(failure(w.s)))
	case sandbox.Running, sandbox.Failed:
	default:
		return
	}
	d, ok := driver.As[driver.Guester](w.driver)
	if !ok {
		return
	}
	short, cancel := context.WithTimeout(ctx, w.ProbeFor)
	defer cancel()
	conn, err := d.Guest(short, driver.ID(w.s.Instance))
	if err == nil {
		defer conn.Close()
		err = conn.Ping(short)
	}
	switch {
	case ctx.Err() != nil: // our own time is over: nothing was found out
	case err != nil:
		o.Ill, o.Detail = sandbox.IllInside, err.Error()
	case w.Prober != nil:
		if err := w.Prober.Probe(short, w.s, conn); err != nil {
			o.Ill, o.Detail = sandbox.AgentIsIll, err.Error()
		}
	}
}

// retried records that the health of a sandbox is asked for again after it was found wanting.
func (w *work) retried(ctx context.Context, why string) {
	w.Metrics.HealthRetries.Inc()
	w.Logger.InfoContext(ctx, telemetry.EventHealthRetry, "reason", w.scrub(why))
}

// coldStart brings the workspace and what runs in it to life.
func (w *work) coldStart(ctx context.Context) error {
	id := driver.ID(w.instance())
	restoring, unwatch := w.untilDiscarded(ctx, w.s.ID)
	synced, err := w.Restorer.Restore(restoring, w.s, id)
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
	if w.Hooks != nil {
		if err := w.Hooks.ColdStart(ctx, w.s, id); err != nil {
			return fmt.Errorf("run the cold start hook: %w", err)
		}
	}
	if w.Prober == nil {
		return nil
	}
	if err := w.heal(ctx); err != nil {
		return fmt.Errorf("start the agent's server: %w", err)
	}
	return nil
}

// heal has the agent's server started where it is not, and waits until it is well.
func (w *work) heal(ctx context.Context) error {
	d, ok := driver.As[driver.Guester](w.driver)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.HealFor, errors.New("the agent's server did not get well in time"))
	defer cancel()
	conn, err := d.Guest(ctx, driver.ID(w.instance()))
	if err != nil {
		return err
	}
	defer conn.Close()
	replaced, err := w.Prober.Heal(ctx, w.s, conn)
	for range replaced {
		w.Metrics.SessionReplacements.Inc()
		w.Logger.InfoContext(ctx, telemetry.EventSessionReplaced)
	}
	if err != nil {
		return err
	}
	return w.wellAgain(ctx, conn)
}

func (w *work) wellAgain(ctx context.Context, conn guest.Conn) error {
	for {
		err := w.Prober.Probe(ctx, w.s, conn)
		if err == nil {
			return nil
		}
		w.retried(ctx, err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(w.HealPoll):
		}
	}
}
