package hook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// panicked is the error of a hook that panicked.
type panicked struct {
	value any
	stack string
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// patience is how long a hook that is out of time may take to notice.
const patience = 5 * time.Second

// guarded runs a hook within its time, and makes an error of a panic. A hook that does not end with its
// context is left behind: it cannot be ended, and what it is about must go on.
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
		case <-time.After(patience):
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
