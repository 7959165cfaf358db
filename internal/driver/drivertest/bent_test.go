package drivertest_test

import (
	"context"
	"iter"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// bent is a procs of which a test may replace single calls.
type bent struct {
	*procs
	kind    func() string
	create  func(context.Context, driver.Spec) (driver.Status, error)
	inspect func(context.Context, driver.ID) (driver.Status, error)
	list    func(context.Context, driver.Selector) iter.Seq2[driver.Status, error]
	destroy func(context.Context, driver.ID) error
	stop    func(context.Context, driver.ID) error
	start   func(context.Context, driver.ID) (driver.Status, error)
	freeze  func(context.Context, driver.ID) error
	thaw    func(context.Context, driver.ID) error
	guest   func(context.Context, driver.ID) (guest.Conn, error)
	output  func(context.Context, driver.ID, string, int64) iter.Seq2[guest.Chunk, error]
	open    func(context.Context, driver.ID, string) (files.FS, error)
	expose  func(context.Context, driver.ID, uint16, time.Duration) (driver.Exposure, error)
}

func newBent(p *procs) *bent {
	return &bent{
		procs: p, kind: p.Kind, create: p.Create, inspect: p.Inspect, list: p.List, destroy: p.Destroy,
		stop: p.Stop, start: p.Start, freeze: p.Freeze, thaw: p.Thaw,
		guest: p.Guest, output: p.Output, open: p.Files, expose: p.Expose,
	}
}

func (b *bent) Kind() string { return b.kind() }

func (b *bent) Create(ctx context.Context, spec driver.Spec) (driver.Status, error) {
	return b.create(ctx, spec)
}

func (b *bent) Inspect(ctx context.Context, id driver.ID) (driver.Status, error) {
	return b.inspect(ctx, id)
}

func (b *bent) List(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
	return b.list(ctx, sel)
}

func (b *bent) Destroy(ctx context.Context, id driver.ID) error { return b.destroy(ctx, id) }
func (b *bent) Stop(ctx context.Context, id driver.ID) error    { return b.stop(ctx, id) }

func (b *bent) Start(ctx context.Context, id driver.ID) (driver.Status, error) {
	return b.start(ctx, id)
}

func (b *bent) Freeze(ctx context.Context, id driver.ID) error { return b.freeze(ctx, id) }
func (b *bent) Thaw(ctx context.Context, id driver.ID) error   { return b.thaw(ctx, id) }

func (b *bent) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) { return b.guest(ctx, id) }

func (b *bent) Output(ctx context.Context, id driver.ID, process string, after int64) iter.Seq2[guest.Chunk, error] {
	return b.output(ctx, id, process, after)
}

func (b *bent) Files(ctx context.Context, id driver.ID, root string) (files.FS, error) {
	return b.open(ctx, id, root)
}

func (b *bent) Expose(ctx context.Context, id driver.ID, port uint16, lifetime time.Duration) (driver.Exposure, error) {
	return b.expose(ctx, id, port, lifetime)
}

// eachURL changes the URLs of ports.
func (b *bent) eachURL(change func(*driver.Exposure)) {
	b.expose = func(ctx context.Context, id driver.ID, port uint16, lifetime time.Duration) (driver.Exposure, error) {
		at, err := b.procs.Expose(ctx, id, port, lifetime)
		change(&at)
		return at, err
	}
}

// bendRun changes what guests do with a command.
func (b *bent) bendRun(change func(run) run) {
	b.guest = func(ctx context.Context, id driver.ID) (guest.Conn, error) {
		if _, err := b.procs.Guest(ctx, id); err != nil {
			return nil, err
		}
		return conn{id: id, run: change(b.procs.run)}, nil
	}
}

// eachListed changes or drops entries of listings.
func (b *bent) eachListed(change func(*driver.Status) (keep bool)) {
	b.list = func(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
		return func(yield func(driver.Status, error) bool) {
			for st, err := range b.procs.List(ctx, sel) {
				if (err != nil || change(&st)) && !yield(st, err) {
					return
				}
			}
		}
	}
}

// phase is the instance's true phase.
func (b *bent) phase(id driver.ID) driver.Phase {
	st, _ := b.procs.Inspect(context.Background(), id)
	return st.Phase
}

// scale sets the incarnations of doubles apart from those of the suite.
const scale = 1000

// double makes a further instance of the spec's Key, which the fake driver itself would refuse.
func (b *bent) double(ctx context.Context, spec driver.Spec, n int64) (driver.Status, error) {
	spec.Key.Incarnation = spec.Key.Incarnation*scale + n
	st, err := b.procs.Create(ctx, spec)
	return unscaled(st), err
}

func unscaled(st driver.Status) driver.Status {
	if st.Key.Incarnation >= scale {
		st.Key.Incarnation /= scale
	}
	return st
}

// showDoubles lets doubles be seen under the Key they were asked for.
func (b *bent) showDoubles() {
	b.eachListed(func(st *driver.Status) bool { *st = unscaled(*st); return true })
	b.inspect = func(ctx context.Context, id driver.ID) (driver.Status, error) {
		st, err := b.procs.Inspect(ctx, id)
		return unscaled(st), err
	}
}
