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

// Backoff is the schedule of WithRetry. Zero fields mean the default.
type Backoff struct {
	First time.Duration // wait before the second try, doubled before each further try; default 200 ms
	Max   time.Duration // longest wait, unless the provider asks for a longer one; default 10 s
	Tries int           // maximum number of calls, the first included; default 4
}

// WithRetry repeats calls of d that return a *TransientError. It waits between the tries according to b,
// and at least as long as the provider asked for. A random part of each wait, up to a half, is left out,
// so that callers that failed together do not retry together. If the wait would end after ctx's deadline,
// it returns the error at once.
//
// If a repeated Create returns an *ExistsError with its own Key, an earlier try has made the instance and
// its reply was lost. WithRetry then returns success, with the instance's current phase. An *ExistsError
// of the first try is returned unchanged. A repeated List yields no entry twice. The connection to a
// guest is retried; requests on it are not, because they may have taken effect.
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

// wait returns the time to wait after the failed try with this number.
func (r retry) wait(try int) time.Duration {
	wait := min(r.First, r.Max)
	for ; try > 1 && wait < r.Max; try-- {
		wait = min(2*wait, r.Max)
	}
	half := wait / 2
	return half + rand.N(wait-half+1)
}

// pause waits. It returns cause at once if ctx's deadline comes before the end of the wait, and cause with ctx's error
// if ctx ends.
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
