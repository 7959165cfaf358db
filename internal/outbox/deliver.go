package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// deliver delivers one message and records the result.
func (o *Outbox) deliver(ctx context.Context, k *kind, m store.Message) error {
	ctx = telemetry.With(ctx, slog.String(telemetry.FieldTenant, string(m.Tenant)))
	err := attempt(ctx, k, m)
	about := []any{"kind", k.name, "message_id", m.ID, "ref", m.Ref, "attempts", m.Attempts, "error", err}
	switch {
	case err == nil:
		o.record(ctx, m, func(ctx context.Context) error { return o.Store.RemoveMessage(ctx, m) })
		return nil
	case errors.Is(err, ErrDrop):
		o.Log.ErrorContext(ctx, "a message of the outbox is given up", about...)
		o.record(ctx, m, func(ctx context.Context) error { return o.Store.RemoveMessage(ctx, m) })
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		// The server is shutting down. This is not a failed delivery: the next server may try at once.
		o.record(ctx, m, func(ctx context.Context) error { return o.Store.Retry(ctx, m, 0, m.LastError) })
		return err
	}
	wait := k.wait(m.Attempts)
	if ctx.Err() != nil { // the caller's deadline was shorter than a delivery may take, and the caller may repeat the call
		wait = min(wait, flushPause)
	}
	o.Log.WarnContext(ctx, "deliver a message of the outbox; it is tried again", append(about, "in", wait.Round(time.Millisecond).String())...)
	o.record(ctx, m, func(ctx context.Context) error { return o.Store.Retry(ctx, m, wait, err.Error()) })
	return err
}

// attempt makes one delivery with a time limit. A panic counts as a failure.
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

// record stores the result of a delivery, also while the server shuts down. If that fails, the message is delivered
// once more. ErrStale is ignored: another server recorded or removed the message.
func (o *Outbox) record(ctx context.Context, m store.Message, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := write(ctx); err != nil && !errors.Is(err, fault.ErrStale) {
		o.Log.WarnContext(ctx, "write down a delivery; it will be repeated", "kind", m.Kind, "message_id", m.ID, "error", err)
	}
}

// wait returns the pause after a number of attempts. It doubles each time, and half of it is random, so that messages
// which failed together are not retried together.
func (k *kind) wait(attempts int64) time.Duration {
	d := k.pause
	if attempts < 13 {
		d = min(d, firstPause<<max(attempts-1, 0))
	}
	return d/2 + rand.N(d/2+1)
}
