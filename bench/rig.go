package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berthdev/berth/bench/docker"
)

// Programs that run in sandboxes and containers, and the name of Docker's image with them.
const (
	command = "/bin/true"
	idler   = "/bin/sleep"
	image   = "berth-bench"
)

// rig holds Berth's local driver, a Berth server and a private Docker daemon on this machine.
type rig struct {
	sizes
	dir    string
	docker *docker.Daemon
	ours   *engine
	server *server
}

// openRig starts all parts of a rig. If one fails, it closes the others.
func openRig(ctx context.Context, size sizes) (r *rig, err error) {
	r = &rig{sizes: size}
	if r.dir, err = os.MkdirTemp("", "berth-bench-"); err != nil {
		return nil, err
	}
	for _, open := range []func(context.Context) error{r.openDocker, r.openEngine, r.openServer} {
		if err := open(ctx); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

func (r *rig) openDocker(ctx context.Context) (err error) {
	if r.docker, err = docker.Start(ctx, filepath.Join(r.dir, "docker")); err != nil {
		return err
	}
	tar, err := docker.Image(command, idler)
	if err != nil {
		return err
	}
	return r.docker.Import(ctx, image, tar)
}

func (r *rig) openEngine(ctx context.Context) (err error) {
	r.ours, err = openEngine(ctx, filepath.Join(r.dir, "driver"), r.berth)
	return err
}

func (r *rig) openServer(ctx context.Context) (err error) {
	r.server, err = openServer(ctx, filepath.Join(r.dir, "server"), r.berth)
	return err
}

// close ends all parts of the rig. It has a separate timeout, so that it also works after Ctrl-C.
func (r *rig) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var failed []error
	if r.server != nil {
		failed = append(failed, r.server.close(ctx))
	}
	if r.ours != nil {
		failed = append(failed, r.ours.close(ctx))
	}
	if r.docker != nil {
		failed = append(failed, r.docker.Close())
	}
	return errors.Join(append(failed, os.RemoveAll(r.dir))...)
}

// container starts a Docker container that does nothing, and returns its id.
func (r *rig) container(ctx context.Context) (string, error) {
	id, err := r.docker.Create(ctx, image, idler, "infinity")
	if err != nil {
		return "", err
	}
	return id, r.docker.Start(ctx, id)
}

// execDocker runs the command in a container.
func (r *rig) execDocker(ctx context.Context, id string) error {
	code, err := r.docker.Exec(ctx, id, command)
	return wentWell("docker", code, err)
}

func wentWell(where string, code int, err error) error {
	if err == nil && code != 0 {
		err = fmt.Errorf("%s in %s exited with %d", command, where, code)
	}
	return err
}
