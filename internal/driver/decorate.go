package driver

import (
	"context"
	"fmt"
	"iter"
)

// policy is what a decorator adds to the calls of a driver.
type policy interface {
	// call runs fn, the operation op, once or more or not at all.
	call(ctx context.Context, op string, fn func() error) error
	// list does the same for a listing, which open begins.
	list(ctx context.Context, open func() iter.Seq2[Status, error]) iter.Seq2[Status, error]
}

// decorated is base under a policy. It offers every ability, and refuses with ErrUnsupported what
// base cannot do; As keeps callers from getting that far.
type decorated struct {
	base   Driver
	policy policy
}

var _ interface {
	Driver
	Stopper
	Freezer
	Execer
} = (*decorated)(nil)

// Unwrap returns the driver under the policy.
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

func (d *decorated) Exec(ctx context.Context, id ID, cmd Cmd) (res Result, err error) {
	err = use(ctx, d, OpExec, func(e Execer) (err error) {
		res, err = e.Exec(ctx, id, cmd)
		return err
	})
	return res, err
}

// use runs one call of the ability T of d's base under d's policy.
func use[T any](ctx context.Context, d *decorated, op string, fn func(T) error) error {
	ability, ok := As[T](d.base)
	if !ok {
		return fmt.Errorf("%s on driver %s: %w", op, d.Kind(), ErrUnsupported)
	}
	return d.policy.call(ctx, op, func() error { return fn(ability) })
}
