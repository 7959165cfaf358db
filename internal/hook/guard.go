package hook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// panicked is the error for a hook that panicked.
type panicked struct {
	value any
	stack string
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// overrunGrace is the time that a hook has to return after its context has ended.
const overrunGrace = 5 * time.Second

// guarded runs a hook with a time limit and turns a panic into an error. It does not wait for a hook that ignores
// the end of its context: left is true then, and the hook's goroutine still runs.
func guarded(ctx context.Context, limit time.Duration, run func(context.Context) error) (left bool, err error) {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := errors.New("it ended its goroutine")
		defer func() { done <- err }()
		err = caught(inner, run)
	}()
	select {
	case err = <-done:
	case <-inner.Done():
		select {
		case err = <-done:
		case <-time.After(overrunGrace):
			left, err = true, errors.New("it does not end, and is left behind")
		}
	}
	if err != nil && ctx.Err() == nil && errors.Is(inner.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("timed out after %s: %w", limit, err)
	}
	return left, err
}

// caught runs a hook and turns its panic into an error.
func caught(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p, string(debug.Stack())}
		}
	}()
	return run(ctx)
}
