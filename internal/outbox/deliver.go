package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// bring delivers one message and writes down what became of it.
func (o *Outbox) bring(ctx context.Context, k *kind, m store.Message) error {
	ctx = telemetry.With(ctx, slog.String(telemetry.FieldTenant, string(m.Tenant)))
	err := attempt(ctx, k, m)
	about := []any{"kind", k.name, "message_id", m.ID, "ref", m.Ref, "attempts", m.Attempts, "error", err}
	switch {
	case err == nil:
		o.record(ctx, m, func(ctx context.Context) error { return o.Store.Delivered(ctx, m) })
		return nil
	case errors.Is(err, ErrDrop):
		o.Log.ErrorContext(ctx, "a message of the outbox is given up", about...)
		o.record(ctx, m, func(ctx context.Context) error { return o.Store.Delivered(ctx, m) })
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		// The server is about to go: that is nobody's failure, and the next one goes on at once.
		o.record(ctx, m, func(ctx context.Context) error { return o.Store.Retry(ctx, m, 0, m.LastError) })
		return err
	}
	wait := pause(m.Attempts)
	if ctx.Err() != nil { // the caller had less time than a delivery may take, and may come again and again
		wait = min(wait, hurriedPause)
	}
	o.Log.WarnContext(ctx, "deliver a message of the outbox; it is tried again", append(about, "in", wait.Round(time.Millisecond).String())...)
	o.record(ctx, m, func(ctx context.Context) error { return o.Store.Retry(ctx, m, wait, err.Error()) })
	return err
}

// attempt is one delivery: it ends in time, and one that panics has failed.
func attempt(ctx context.Context, k *kind, m store.Message) (err error) {
	ctx, cancel := context.WithTimeout(ctx, k.within)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return k.deliver(ctx, m)
}

// record writes down what became of a delivery, also when the server is about to go. What cannot be
// written down is delivered once more; what somebody else wrote down, or removed, needs no word.
func (o *Outbox) record(ctx context.Context, m store.Message, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordFor)
	defer cancel()
	if err := write(ctx); err != nil && !errors.Is(err, sandbox.ErrStale) {
		o.Log.WarnContext(ctx, "write down a delivery; it will be repeated", "kind", m.Kind, "message_id", m.ID, "error", err)
	}
}

// pause is how long to wait after so many attempts: twice as long each time, the half of it at random, so
// that what failed together does not come back together.
func pause(attempts int64) time.Duration {
	d := longestPause
	if attempts < 13 {
		d = min(d, firstPause<<max(attempts-1, 0))
	}
	return d/2 + rand.N(d/2+1)
}
