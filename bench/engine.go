package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/guest"
)

// engine is Berth's local driver without a server.
type engine struct {
	*local.Driver
	dir string
}

// openEngine opens the driver on a directory. The helper comes from the given program, or from this one if it is empty.
func openEngine(ctx context.Context, dir, program string) (*engine, error) {
	d, err := local.New(ctx, local.Options{Dir: dir, Exe: program})
	if err != nil {
		return nil, err
	}
	return &engine{Driver: d, dir: dir}, nil
}

// box is a running sandbox and the connection to its helper.
type box struct {
	name string // Berth's id of the sandbox
	id   driver.ID
	conn guest.Conn
}

// create makes a sandbox with limits for CPU, memory and processes.
func (e *engine) create(ctx context.Context) (box, error) {
	b := box{name: newName()}
	made, err := e.Create(ctx, driver.Spec{
		Key:    driver.Key{Sandbox: b.name, Incarnation: 1},
		Tenant: "bench",
		Limits: driver.Limits{CPU: 1, MemoryBytes: 1 << 30, Processes: 256},
	})
	if err != nil {
		return b, err
	}
	b.id = made.ID
	b.conn, err = e.Guest(ctx, b.id)
	return b, err
}

func newName() string { return "bench-" + strings.ToLower(rand.Text()) }

// exec runs the command in the sandbox.
func (b box) exec(ctx context.Context) error {
	exit, err := b.conn.Run(ctx, guest.Cmd{Argv: []string{command}}, guest.Stdio{})
	return wentWell("a sandbox", exit.Code, err)
}

// end removes the sandbox.
func (e *engine) end(ctx context.Context, b box) error {
	return errors.Join(b.conn.Close(), e.Destroy(ctx, b.id))
}

// freezeThaw freezes the sandbox and thaws it.
func (e *engine) freezeThaw(ctx context.Context, id driver.ID) error {
	if err := e.Freeze(ctx, id); err != nil {
		return err
	}
	return e.Thaw(ctx, id)
}

// close destroys all sandboxes and ends the driver's background work.
func (e *engine) close(ctx context.Context) error {
	return errors.Join(endAll(ctx, e.Driver), e.Close())
}

// endAll destroys all instances of a driver and waits until the driver has cleaned up after them.
func endAll(ctx context.Context, d driver.Driver) error {
	var failed error
	for st, err := range d.List(ctx, driver.Selector{}) {
		if err != nil {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, d.Destroy(ctx, st.ID))
	}
	tidy, ok := driver.As[interface{ WaitIdle(context.Context) error }](d)
	if !ok {
		return errors.Join(failed, errors.New("the driver does not say when it is done"))
	}
	return errors.Join(failed, tidy.WaitIdle(ctx))
}
