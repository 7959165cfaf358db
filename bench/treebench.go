package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit/s3test"
)

// treeBench holds the S3 server and the trees of all tools for the workspace benchmarks. All files are in memory, because
// the speed of disks varies too much.
type treeBench struct {
	sizes
	dir      string
	server   *s3test.Server
	endpoint string         // address of the server, or of a proxy in front of it
	tools    []tool         // the tools that are compared; Berth is the first
	places   map[string]int // number of the current place of each tool, by its name
}

const bucket = "bench"

func openTreeBench(ctx context.Context, size sizes) (s *treeBench, err error) {
	if size.berth == "" {
		return nil, errors.New("there is no program to save with; name one with -berth")
	}
	for _, program := range []string{"restic", "rclone"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("a peer is missing: %w; scripts/setup bench installs it", err)
		}
	}
	s = &treeBench{sizes: size, places: map[string]int{}}
	s.tools = []tool{&berth{s, "berth"}, &restic{s, "restic"}, &rclone{s, "rclone"}}
	if s.dir, err = inMemory(size.shm); err != nil {
		return nil, err
	}
	if s.server, err = s3test.Open(ctx, s3test.Options{Dir: s.dir}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	s.endpoint = s.server.Endpoint
	if err := os.MkdirAll(filepath.Join(s.dir, "data", bucket), 0o755); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// inMemory makes a folder in a tmpfs.
func inMemory(under string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(under, &fs); err != nil {
		return "", fmt.Errorf("look at %s: %w", under, err)
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return "", fmt.Errorf("%s is no tmpfs; name one with -shm", under)
	}
	return os.MkdirTemp(under, "berth-bench-")
}

func (s *treeBench) close() error { return errors.Join(s.server.Close(), os.RemoveAll(s.dir)) }

// tree returns the folder that a tool saves. Each tool has a separate copy of the tree.
func (s *treeBench) tree(t tool) string { return filepath.Join(s.dir, "trees", t.name()) }

// restored returns the folder that a tool restores into.
func (s *treeBench) restored(t tool) string { return filepath.Join(s.dir, "restored", t.name()) }

// place returns the prefix in the bucket that a tool saves to.
func (s *treeBench) place(t tool) string { return fmt.Sprintf("%s-%d", t.name(), s.places[t.name()]) }

// forget removes all files of a tool: its tree, its restored folder, its saved data and its cache.
func (s *treeBench) forget(t tool) error {
	return errors.Join(os.RemoveAll(s.tree(t)), os.RemoveAll(s.restored(t)), s.unsave(t))
}

func (s *treeBench) unsave(t tool) error {
	return errors.Join(os.RemoveAll(filepath.Join(s.dir, "data", bucket, s.place(t))), os.RemoveAll(filepath.Join(s.dir, "cache", t.name())))
}

// run runs a tool's program and returns its cost.
func (s *treeBench) run(ctx context.Context, c call) (spent, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "XDG_CACHE_HOME=" + filepath.Join(s.dir, "cache", "shared"), "RCLONE_CONFIG=" + os.DevNull}
	for name, value := range s3test.Env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, c.env...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &prefixWriter{&said, 4096}, &prefixWriter{&said, 4096}
	began := time.Now()
	err := cmd.Run()
	took := spent{wall: time.Since(began)}
	if err != nil {
		return took, fmt.Errorf("%s: %w: %s", strings.Join(c.args, " "), err, said.String())
	}
	took.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		took.rss = usage.Maxrss << 10
	}
	return took, nil
}

func (s *treeBench) running(c func() call) func(context.Context) (spent, error) {
	return func(ctx context.Context) (spent, error) { return s.run(ctx, c()) }
}

// firstPush returns an entrant that saves a tree to an empty place.
func (s *treeBench) firstPush(t tool) entrant {
	prepare := func(ctx context.Context) error {
		if err := s.unsave(t); err != nil {
			return err
		}
		s.places[t.name()]++
		return t.begin(ctx)
	}
	return entrant{name: t.name(), prepare: prepare, run: s.running(t.push)}
}

// push returns an entrant that saves a tree again.
func (s *treeBench) push(t tool) entrant { return entrant{name: t.name(), run: s.running(t.push)} }

// changedPush returns an entrant that saves a tree in which one file in a hundred has changed.
func (s *treeBench) changedPush(t tool) entrant {
	prepare := func(ctx context.Context) error {
		if err := t.next(ctx); err != nil {
			return err
		}
		return edit(s.tree(t))
	}
	return entrant{name: t.name(), prepare: prepare, run: s.running(t.push)}
}

// restore returns an entrant that restores a tree into a new folder and compares it with the original.
func (s *treeBench) restore(t tool) entrant {
	prepare := func(context.Context) error { return os.RemoveAll(s.restored(t)) }
	after := func(context.Context) error { return sameTrees(s.tree(t), s.restored(t)) }
	return entrant{name: t.name(), prepare: prepare, run: s.running(t.restore), after: after}
}

// pull returns an entrant that updates a restored tree that has no changes.
func (s *treeBench) pull(t tool) entrant { return entrant{name: t.name(), run: s.running(t.pull)} }

// store returns the bucket's URL in the form that Berth takes.
func (s *treeBench) store() string {
	return fmt.Sprintf("s3://%s?endpoint=%s&region=%s", bucket, url.QueryEscape(s.endpoint), s3test.Region)
}
