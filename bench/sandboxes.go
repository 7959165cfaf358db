package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// sandboxFigures prints the figures of sandboxes, in comparison with Docker's containers.
func sandboxFigures(ctx context.Context, size sizes, print func(figure) error) (err error) {
	r, err := openRig(ctx, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for _, bench := range []func(context.Context, func(figure) error) error{r.creates, r.running, r.memory} {
		if err := bench(ctx, print); err != nil {
			return err
		}
	}
	return nil
}

// creates measures the time from the create of a sandbox to the result of its first command. All sandboxes have full
// isolation and limits, so the figure has two goals: the one for a read-only sandbox and the one for a normal sandbox.
func (r *rig) creates(ctx context.Context, print func(figure) error) error {
	both := []goal{{ratio: 1. / 30}, {ratio: 1. / 20}}
	f, err := compare(ctx, "create to first result, driver to Docker API", r.rounds, r.createHere, r.createDocker, both...)
	if err != nil {
		return err
	}
	f.note = "all isolation on; Docker on " + r.docker.Storage
	if err := print(f); err != nil {
		return err
	}
	f, err = compare(ctx, "create to first result, HTTP API to Docker API", r.rounds, r.createServed, r.createDocker)
	if err != nil {
		return err
	}
	f.note = around
	if err := print(f); err != nil {
		return err
	}
	return r.disks(ctx, print)
}

// disks measures the cost of a hard disk limit in a create. A sandbox with a hard limit has a separate file system. The
// peer is a sandbox whose use of the disk is watched.
func (r *rig) disks(ctx context.Context, print func(figure) error) error {
	soft := func(ctx context.Context) (time.Duration, error) { return r.createServedOf(ctx, watchedTemplate) }
	f, err := compare(ctx, "create to first result over HTTP, hard disk limit to a watched one", r.rounds, r.createServed, soft, goal{ratio: 1.1})
	if err != nil {
		return err
	}
	return print(f)
}

// around is the note of figures without a goal, which show the cost of the server and its database.
const around = "with the server and its database around it"

func (r *rig) createHere(ctx context.Context) (took time.Duration, err error) {
	began := time.Now()
	b, err := r.ours.create(ctx)
	if err != nil {
		return 0, err
	}
	if err := b.exec(ctx); err != nil {
		return 0, err
	}
	return time.Since(began), r.ours.end(ctx, b)
}

func (r *rig) createServed(ctx context.Context) (took time.Duration, err error) {
	return r.createServedOf(ctx, "default")
}

func (r *rig) createServedOf(ctx context.Context, template string) (took time.Duration, err error) {
	began := time.Now()
	id, err := r.server.createOf(ctx, template)
	if err != nil {
		return 0, err
	}
	if err := r.server.exec(ctx, id); err != nil {
		return 0, err
	}
	return time.Since(began), r.server.end(ctx, id)
}

func (r *rig) createDocker(ctx context.Context) (took time.Duration, err error) {
	began := time.Now()
	id, err := r.container(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.execDocker(ctx, id); err != nil {
		return 0, err
	}
	return time.Since(began), r.docker.Remove(ctx, id)
}

// running measures operations on running sandboxes.
func (r *rig) running(ctx context.Context, print func(figure) error) error {
	t, err := r.openTrio(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	for _, m := range t.matches() {
		f, err := compare(ctx, m.name, m.n, m.ours, m.peer, m.goals...)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		f.note = m.note
		if err := print(f); err != nil {
			return err
		}
	}
	return nil
}

// trio is a running sandbox of the driver, one of the server, and a container of Docker.
type trio struct {
	*rig
	here           box
	served, docked string // ids of the server's sandbox and of the container
	dials          *dials
}

func (r *rig) openTrio(ctx context.Context) (t *trio, err error) {
	t = &trio{rig: r}
	if t.served, err = r.server.create(ctx); err != nil {
		return nil, err
	}
	if t.docked, err = r.container(ctx); err != nil {
		return nil, err
	}
	if t.here, err = r.ours.create(ctx); err != nil {
		return nil, err
	}
	if t.dials, err = openDials(ctx, t.here.conn); err != nil {
		return nil, errors.Join(err, t.here.conn.Close())
	}
	return t, nil
}

// close closes the connections. The rig ends the sandboxes and the container.
func (t *trio) close() {
	t.dials.close()
	_ = t.here.conn.Close()
}

// match is one comparison of two contenders.
type match struct {
	name       string
	n          int
	ours, peer contender
	goals      []goal
	note       string
}

func (t *trio) matches() []match {
	host := timed(func(context.Context) error { return exec.Command(command).Run() })
	exec := timed(func(ctx context.Context) error { return t.server.exec(ctx, t.served) })
	docker := timed(func(ctx context.Context) error { return t.execDocker(ctx, t.docked) })
	freeze := timed(func(ctx context.Context) error { return t.ours.freezeThaw(ctx, t.here.id) })
	freezeServed := timed(func(ctx context.Context) error { return t.server.freezeThaw(ctx, t.served) })
	return []match{
		{"exec, HTTP API to fork and exec on the host", t.quick, exec, host, []goal{{ratio: 2}}, ""},
		{"exec, helper alone to fork and exec on the host", t.quick, timed(t.here.exec), host, nil, "without server and database"},
		{"exec, HTTP API to Docker API", t.rounds, exec, docker, []goal{{ratio: 1. / 30}}, ""},
		{"freeze and thaw, driver to Docker API", t.rounds, freeze, t.pauses(), []goal{{ratio: 1. / 20}}, ""},
		{"freeze and thaw, HTTP API to Docker API", t.rounds, freezeServed, t.pauses(), nil, around},
		{"dial a port, in a sandbox to on the host", t.quick, t.dials.inside, t.dials.outside, []goal{{ours: 500e-6}}, ""},
	}
}

// pauses returns a contender that pauses and unpauses a container. Docker sometimes registers a pause late and then
// reports that the container is not paused. Such an attempt does not count: the contender repeats it with a new
// container, up to four times.
func (r *rig) pauses() contender {
	var id string
	return func(ctx context.Context) (took time.Duration, err error) {
		for range 5 {
			if id == "" {
				if id, err = r.container(ctx); err != nil {
					return 0, err
				}
			}
			began := time.Now()
			if err = r.docker.Pause(ctx, id); err == nil {
				err = r.docker.Unpause(ctx, id)
			}
			if err == nil || ctx.Err() != nil {
				return time.Since(began), err
			}
			if removed := r.docker.Remove(ctx, id); removed != nil {
				return 0, errors.Join(err, removed)
			}
			id = ""
		}
		return 0, err
	}
}
