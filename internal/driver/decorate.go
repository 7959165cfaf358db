package driver

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// policy is the behaviour that a decorator adds to the calls of a driver.
type policy interface {
	// call runs the operation op by calling fn, any number of times.
	call(ctx context.Context, op string, fn func() error) error
	// list runs a listing by calling open, any number of times.
	list(ctx context.Context, open func() iter.Seq2[Status, error]) iter.Seq2[Status, error]
}

// decorated is a driver whose calls go through a policy. It implements every ability and returns
// ErrUnsupported for those that base lacks. Callers use As, which does not return it for such an ability.
type decorated struct {
	base   Driver
	policy policy
}

var _ interface {
	Driver
	Stopper
	Freezer
	Guester
	Filer
	Exposer
} = (*decorated)(nil)

// Unwrap returns the driver without the policy.
func (d *decorated) Unwrap() Driver { return d.base }

func (d *decorated) Kind() string { return d.base.Kind() }

func (d *decorated) Create(ctx context.Context, spec Spec) (st Status, err error) {
	err = d.policy.call(ctx, OpCreate, func() (err error) {
		st, err = d.base.Create(ctx, spec)
		return err
	})
	return st, err
}

func (d *decorated) Inspect(ctx context.Context, id ID) (st Status, err error) {
	err = d.policy.call(ctx, OpInspect, func() (err error) {
		st, err = d.base.Inspect(ctx, id)
		return err
	})
	return st, err
}

func (d *decorated) List(ctx context.Context, sel Selector) iter.Seq2[Status, error] {
	return d.policy.list(ctx, func() iter.Seq2[Status, error] { return d.base.List(ctx, sel) })
}

func (d *decorated) Destroy(ctx context.Context, id ID) error {
	return d.policy.call(ctx, OpDestroy, func() error { return d.base.Destroy(ctx, id) })
}

func (d *decorated) Stop(ctx context.Context, id ID) error {
	return use(ctx, d, OpStop, func(s Stopper) error { return s.Stop(ctx, id) })
}

func (d *decorated) Start(ctx context.Context, id ID) (st Status, err error) {
	err = use(ctx, d, OpStart, func(s Stopper) (err error) {
		st, err = s.Start(ctx, id)
		return err
	})
	return st, err
}

func (d *decorated) Freeze(ctx context.Context, id ID) error {
	return use(ctx, d, OpFreeze, func(f Freezer) error { return f.Freeze(ctx, id) })
}

func (d *decorated) Thaw(ctx context.Context, id ID) error {
	return use(ctx, d, OpThaw, func(f Freezer) error { return f.Thaw(ctx, id) })
}

// Guest applies the policy to the connect, not to operations on the connection.
func (d *decorated) Guest(ctx context.Context, id ID) (conn guest.Conn, err error) {
	err = use(ctx, d, OpGuest, func(g Guester) (err error) {
		conn, err = g.Guest(ctx, id)
		return err
	})
	return conn, err
}

// Output does not apply the policy. It lasts as long as the process writes, and would keep its place of
// a limit from other calls for that time.
func (d *decorated) Output(ctx context.Context, id ID, process string, after int64) iter.Seq2[guest.Chunk, error] {
	g, ok := As[Guester](d.base)
	if !ok {
		return func(yield func(guest.Chunk, error) bool) { yield(guest.Chunk{}, d.unsupported(OpGuest)) }
	}
	return g.Output(ctx, id, process, after)
}

// Files applies the policy to the opening, not to operations on the files.
func (d *decorated) Files(ctx context.Context, id ID, root string) (fs files.FS, err error) {
	err = use(ctx, d, OpFiles, func(f Filer) (err error) {
		fs, err = f.Files(ctx, id, root)
		return err
	})
	return fs, err
}

// Expose applies the policy to the request for a URL, not to requests that use it.
func (d *decorated) Expose(ctx context.Context, id ID, port uint16, lifetime time.Duration) (at Exposure, err error) {
	err = use(ctx, d, OpExpose, func(e Exposer) (err error) {
		at, err = e.Expose(ctx, id, port, lifetime)
		return err
	})
	return at, err
}

// use runs one call of the ability T of d's base through d's policy.
func use[T any](ctx context.Context, d *decorated, op string, fn func(T) error) error {
	ability, ok := As[T](d.base)
	if !ok {
		return d.unsupported(op)
	}
	return d.policy.call(ctx, op, func() error { return fn(ability) })
}

func (d *decorated) unsupported(op string) error {
	return fmt.Errorf("%s on driver %s: %w", op, d.Kind(), ErrUnsupported)
}
