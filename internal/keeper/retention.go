package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// overdue is what the last look at the versions of deleted sandboxes could not remove.
type overdue struct {
	mu  sync.Mutex
	n   int
	why error
	ch  chan struct{} // an end has left versions to Run
}

func (o *overdue) left() chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ch == nil {
		o.ch = make(chan struct{}, 1)
	}
	return o.ch
}

// Overdue is how many deleted sandboxes have versions that were to be gone when it was last tried, and why
// they are not.
func (k *Keeper) Overdue() (n int, why error) {
	k.overdue.mu.Lock()
	defer k.overdue.mu.Unlock()
	return k.overdue.n, k.overdue.why
}

// Bounds of how often versions are looked for that are to go.
const (
	expireOften  = time.Second
	expireSoon   = 30 * time.Second // after a store did not answer
	expireSeldom = 10 * time.Minute
)

// Run removes the versions of deleted sandboxes when their time has come, until the context ends. What a
// crash or a refusal leaves undone is done by a later look, here or at another server.
func (k *Keeper) Run(ctx context.Context) {
	every := expireSeldom
	if k.Retention > 0 {
		every = min(max(k.Retention/10, expireOften), expireSeldom)
	}
	for {
		wait := every
		if err := k.Expire(ctx); err != nil && ctx.Err() == nil {
			k.log().WarnContext(ctx, "versions of deleted sandboxes could not be removed; it is tried again", "error", err)
			wait = min(every, expireSoon)
		}
		next := time.After(wait)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-k.overdue.left():
				next = time.After(min(every, expireSoon))
			case <-next:
				waiting = false
			}
		}
	}
}

// soon has Run look again before long.
func (k *Keeper) soon() {
	select {
	case k.overdue.left() <- struct{}{}:
	default:
	}
}

// mostRefused is how many refusals end a look: the store will refuse the rest as well.
const mostRefused = 10

// Expire removes the versions of sandboxes that were deleted longer ago than they are kept, and those that
// somebody wanted gone.
func (k *Keeper) Expire(ctx context.Context) error {
	failed, why := 0, error(nil)
	for after := ""; ; {
		due, err := k.Records.Unpurged(ctx, k.Retention, after, besidePage)
		if err != nil {
			return err
		}
		for _, s := range due {
			if after = s.ID; k.Known != nil && !k.Known(s) {
				continue // nobody can say where its versions are until its template is back
			}
			if err := k.expire(ctx, s); err != nil {
				failed, why = failed+1, err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if len(due) == 0 || failed >= mostRefused {
			break
		}
	}
	k.overdue.mu.Lock()
	k.overdue.n, k.overdue.why = failed, why
	k.overdue.mu.Unlock()
	return why
}

// expire removes the versions of one. Those that others have as well stay with them: if they are the
// others' for good, nothing is left to do about this one, otherwise they are looked at again.
func (k *Keeper) expire(ctx context.Context, s sandbox.Sandbox) error {
	if k.Plan(s).Shared {
		return k.Records.Purged(ctx, s.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if s.Purge == sandbox.PurgeUnknown && s.Synced.Incarnation >= 0 {
		if purge, err := k.markedBefore(ctx, s); err != nil || !purge {
			return err
		}
	}
	switch err := k.Purge(ctx, s); {
	case sandbox.CodeOf(err) == api.CodeConflict:
		return nil
	case err != nil:
		return err
	}
	return k.Records.Purged(ctx, s.ID)
}
