package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// releaseFigures compares a server with an earlier version, by operations that users wait for. Both are processes with
// real sandboxes.
func releaseFigures(ctx context.Context, size sizes, print func(figure) error) error {
	if size.before == "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "berth-bench-releases-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var both [2]*release
	for i, program := range []string{size.berth, size.before} {
		r, err := openRelease(ctx, program, filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		defer r.close()
		both[i] = r
	}
	for _, thing := range []struct {
		name string
		n    int
		do   func(*release) contender
	}{
		{"create, run a command, delete", size.rounds, func(r *release) contender { return r.create }},
		{"command in a running sandbox", size.quick, func(r *release) contender { return timed(r.exec) }},
		{"ensure a running project", size.quick, func(r *release) contender { return timed(r.resolve) }},
		{"turn of the demo agent", size.rounds, func(r *release) contender { return timed(r.turn) }},
		{"save of one changed file", size.rounds, func(r *release) contender { return r.save }},
	} {
		f, err := compare(ctx, "releases: "+thing.name, thing.n, thing.do(both[0]), thing.do(both[1]), goal{ratio: 1.05})
		if err != nil {
			return fmt.Errorf("%s: %w", thing.name, err)
		}
		if err := print(f); err != nil {
			return err
		}
	}
	return nil
}

// release is a server of one version, with a running sandbox and the running sandbox of a project.
type release struct {
	*process
	client  *client.Client
	sandbox *client.Sandbox
	saves   int
}

func openRelease(ctx context.Context, program, dir string) (*release, error) {
	p, err := serve(ctx, program, dir, "", "BERTH_DEFAULT_DRIVER=local")
	if err != nil {
		return nil, err
	}
	r := &release{process: p}
	if r.client, err = client.New(p.base, key); err == nil {
		r.sandbox, err = r.client.Sandbox(ctx, api.CreateSandbox{})
	}
	if err == nil {
		_, _, err = r.client.Projects.Ensure(ctx, "bench", api.EnsureProject{})
	}
	if err != nil {
		return nil, errors.Join(err, p.end())
	}
	return r, nil
}

// close deletes the sandboxes, which would otherwise keep running, and ends the server.
func (r *release) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for s, err := range r.client.Sandboxes.List(ctx, client.SandboxFilter{}) {
		if err != nil {
			break
		}
		_ = r.client.Sandboxes.Delete(ctx, s.ID, client.SkipSave())
	}
	_ = r.end()
}

// create measures the time from the create to the end of a first command. The delete does not count, and neither does what
// either server does in the background after it: that would slow down the one whose turn is next.
func (r *release) create(ctx context.Context) (time.Duration, error) {
	time.Sleep(quietTime)
	begun := time.Now()
	s, err := r.client.Sandbox(ctx, api.CreateSandbox{})
	if err != nil {
		return 0, err
	}
	_, err = s.Exec(ctx, api.Exec{Command: api.Command{command}})
	took := time.Since(begun)
	return took, errors.Join(err, s.Delete(ctx, false))
}

// quietTime is longer than the work of a server after a create and a delete.
const quietTime = 300 * time.Millisecond

func (r *release) exec(ctx context.Context) error {
	_, err := r.sandbox.Exec(ctx, api.Exec{Command: api.Command{command}})
	return err
}

func (r *release) resolve(ctx context.Context) error {
	_, _, err := r.client.Projects.Ensure(ctx, "bench", api.EnsureProject{})
	return err
}

func (r *release) turn(ctx context.Context) error {
	for _, err := range r.sandbox.ExecuteAgentStream(ctx, api.Prompt{Prompt: "hello"}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// save changes a file and measures only the save after it.
func (r *release) save(ctx context.Context) (time.Duration, error) {
	r.saves++
	if _, err := r.sandbox.Exec(ctx, api.Exec{Command: api.Command{"sh", "-c", fmt.Sprintf("echo %d >changed", r.saves)}}); err != nil {
		return 0, err
	}
	begun := time.Now()
	_, err := r.sandbox.SyncFiles(ctx)
	return time.Since(begun), err
}
