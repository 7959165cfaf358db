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

// shed is where trees are saved: a folder in memory, with an S3 server's data and the trees of every tool
// in it. Disks differ too much to be measured with.
type shed struct {
	sizes
	dir      string
	server   *s3test.Server
	endpoint string // of the server, or of what stands before it
	tools    []tool // ours first
	places   map[string]int
}

const bucket = "bench"

func openShed(ctx context.Context, size sizes) (s *shed, err error) {
	if size.berth == "" {
		return nil, errors.New("there is no program to save with; name one with -berth")
	}
	for _, program := range []string{"restic", "rclone"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("a peer is missing: %w; scripts/setup bench installs it", err)
		}
	}
	s = &shed{sizes: size, places: map[string]int{}}
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

// inMemory makes a folder on a file system that has no disk.
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

func (s *shed) close() error { return errors.Join(s.server.Close(), os.RemoveAll(s.dir)) }

// tree is a tool's own copy of what it saves.
func (s *shed) tree(t tool) string { return filepath.Join(s.dir, "trees", t.name()) }

// restored is where a tool restores to.
func (s *shed) restored(t tool) string { return filepath.Join(s.dir, "restored", t.name()) }

// place is where a tool saves to, below the bucket.
func (s *shed) place(t tool) string { return fmt.Sprintf("%s-%d", t.name(), s.places[t.name()]) }

// forget removes everything of a tool: its tree, what it saved and what it keeps.
func (s *shed) forget(t tool) error {
	return errors.Join(os.RemoveAll(s.tree(t)), os.RemoveAll(s.restored(t)), s.unsave(t))
}

func (s *shed) unsave(t tool) error {
	return errors.Join(os.RemoveAll(filepath.Join(s.dir, "data", bucket, s.place(t))), os.RemoveAll(filepath.Join(s.dir, "cache", t.name())))
}

// run runs a tool's program.
func (s *shed) run(ctx context.Context, c call) (spent, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "XDG_CACHE_HOME=" + filepath.Join(s.dir, "cache", "shared"), "RCLONE_CONFIG=" + os.DevNull}
	for name, value := range s3test.Env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, c.env...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &upTo{&said, 4096}, &upTo{&said, 4096}
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

func (s *shed) running(c func() call) func(context.Context) (spent, error) {
	return func(ctx context.Context) (spent, error) { return s.run(ctx, c()) }
}

// firstPush saves a tree in a place where nothing is yet.
func (s *shed) firstPush(t tool) entrant {
	prepare := func(ctx context.Context) error {
		if err := s.unsave(t); err != nil {
			return err
		}
		s.places[t.name()]++
		return t.begin(ctx)
	}
	return entrant{name: t.name(), prepare: prepare, run: s.running(t.push)}
}

// push saves a tree again.
func (s *shed) push(t tool) entrant { return entrant{name: t.name(), run: s.running(t.push)} }

// changedPush saves a tree of which one file in a hundred was changed.
func (s *shed) changedPush(t tool) entrant {
	prepare := func(ctx context.Context) error {
		if err := t.next(ctx); err != nil {
			return err
		}
		return edit(s.tree(t))
	}
	return entrant{name: t.name(), prepare: prepare, run: s.running(t.push)}
}

// restore brings a tree back to where nothing is, and looks whether it is the same.
func (s *shed) restore(t tool) entrant {
	prepare := func(context.Context) error { return os.RemoveAll(s.restored(t)) }
	after := func(context.Context) error { return same(s.tree(t), s.restored(t)) }
	return entrant{name: t.name(), prepare: prepare, run: s.running(t.restore), after: after}
}

// pull brings a tree up to date that is so already.
func (s *shed) pull(t tool) entrant { return entrant{name: t.name(), run: s.running(t.pull)} }

// store is the bucket as ours takes it.
func (s *shed) store() string {
	return fmt.Sprintf("s3://%s?endpoint=%s&region=%s", bucket, url.QueryEscape(s.endpoint), s3test.Region)
}
