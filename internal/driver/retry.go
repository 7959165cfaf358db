package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
)

// Backoff says how often and how patiently WithRetry tries. Zero fields take their default.
type Backoff struct {
	First time.Duration // before the second try, doubled for each further one; 200 ms
	Max   time.Duration // most we wait unless the provider asks for more; 10 s
	Tries int           // calls in all; 4
}

// WithRetry repeats calls of d that end in a *TransientError, waiting between them as b says and at
// least as long as the provider advised. Waits are spread at random over their upper half, so that
// callers who failed together do not come back together. It never waits past ctx's deadline: the
// error that would have been retried is returned at once instead.
//
// A repeated Create that meets its own Key found what the lost reply was about: that is a success,
// and the returned phase may be any, since the instance may have moved on meanwhile. The first try's
// *ExistsError is returned as is. A repeated List yields no entry twice. Connecting to a guest is
// repeated; what is asked of it never is, since it may have been done.
func WithRetry(d Driver, b Backoff) Driver {
	b.First = cmp.Or(max(b.First, 0), 200*time.Millisecond)
	b.Max = cmp.Or(max(b.Max, 0), 10*time.Second)
	b.Tries = cmp.Or(max(b.Tries, 0), 4)
	return &retrying{decorated{base: d, policy: retry{b}}}
}

type retrying struct{ decorated }

func (r *retrying) Create(ctx context.Context, spec Spec) (st Status, err error) {
	tries := 0
	err = r.policy.call(ctx, OpCreate, func() (err error) {
		tries++
		st, err = r.base.Create(ctx, spec)
		if found, ok := errors.AsType[*ExistsError](err); ok && tries > 1 && found.Status.Key == spec.Key {
			st, err = found.Status, nil
		}
		return err
	})
	return st, err
}

type retry struct{ Backoff }

func (r retry) call(ctx context.Context, op string, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		transient, ok := errors.AsType[*TransientError](err)
		if !ok || try >= r.Tries {
			return err
		}
		if err := pause(ctx, max(r.wait(try), transient.After), err); err != nil {
			return fmt.Errorf("retry %s: %w", op, err)
		}
	}
}

// wait is how long to hold back after the given failed try.
func (r retry) wait(try int) time.Duration {
	wait := min(r.First, r.Max)
	for ; try > 1 && wait < r.Max; try-- {
		wait = min(2*wait, r.Max)
	}
	half := wait / 2
	return half + rand.N(wait-half+1)
}

// pause waits. When ctx leaves no time for it, the answer is cause, with ctx's error if it has one.
func pause(ctx context.Context, wait time.Duration, cause error) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && time.Until(deadline) <= wait {
		return cause
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
}

func (r retry) list(ctx context.Context, open func() iter.Seq2[Status, error]) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		seen := map[ID]bool{}
		err := r.call(ctx, OpList, func() error {
			for st, err := range open() {
				if err != nil {
					return err
				}
				if seen[st.ID] {
					continue
				}
				seen[st.ID] = true
				if !yield(st, nil) {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			yield(Status{}, err)
		}
	}
}
