package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// trace holds the traces of running sandboxes on the host: files, cgroups, processes and sockets. Other programs may
// also run sandboxes, so the traces are identified by unique names, inodes and start times.
type trace struct {
	dir       string            // parent directory of the sandboxes' files
	names     []string          // ids of the sandboxes, which are in the names of directories and cgroups
	processes map[string]string // start time of each process, by its directory in /proc
	sockets   map[string]bool   // inodes of the sockets that reserve uid ranges
}

// traces records the traces of running sandboxes. It returns an error if a kind of trace is missing, because a later
// check for that kind would then prove nothing.
func traces(dir string, boxes []box, pids []int) (t *trace, err error) {
	t = &trace{dir: dir, processes: map[string]string{}}
	for _, b := range boxes {
		t.names = append(t.names, b.name)
	}
	for _, pid := range pids {
		dir := fmt.Sprint("/proc/", pid)
		if t.processes[dir] = startedAt(dir); t.processes[dir] == "" {
			return nil, fmt.Errorf("a helper, process %d, has ended", pid)
		}
	}
	held, err := uidSockets()
	if err != nil {
		return nil, err
	}
	if t.sockets, err = heldBy(pids, held); err != nil {
		return nil, err
	}
	directories, err := t.named(dir)
	if err != nil {
		return nil, err
	}
	cgroups, err := t.named(cgroups)
	if err != nil {
		return nil, err
	}
	if n := len(boxes); len(directories) < n || len(cgroups) < n || len(t.sockets) != n || len(t.processes) != n {
		return nil, fmt.Errorf("%d sandboxes show %d directories, %d cgroups, %d uid sockets and %d processes: what is left of them could not be told",
			n, len(directories), len(cgroups), len(t.sockets), len(t.processes))
	}
	return t, nil
}

const cgroups = "/sys/fs/cgroup"

// gone waits until no trace is left, because the cleanup continues after a delete. It returns an error if traces stay.
func (t *trace) gone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		left, err := t.left()
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("left of %d deleted sandboxes:\n%s", len(t.names), strings.Join(left, "\n"))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (t *trace) left() (left []string, err error) {
	for _, root := range []string{t.dir, cgroups} {
		found, err := t.named(root)
		if err != nil {
			return nil, err
		}
		left = append(left, found...)
	}
	for dir, began := range t.processes {
		if startedAt(dir) == began {
			left = append(left, "process "+dir)
		}
	}
	held, err := uidSockets()
	if err != nil {
		return nil, err
	}
	for inode, name := range held {
		if t.sockets[inode] {
			left = append(left, "socket "+name)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, t.dir) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	return left, err
}

// named lists the directories below root whose names contain the id of a sandbox. It does not look inside them.
func (t *trace) named(root string) (found []string, err error) {
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed during the walk
		case err != nil:
			return err
		case e.IsDir() && t.containsName(e.Name()):
			found = append(found, path)
			return fs.SkipDir
		}
		return nil
	})
	return found, err
}

func (t *trace) containsName(name string) bool {
	for _, n := range t.names {
		if strings.Contains(name, n) {
			return true
		}
	}
	return false
}

// startedAt returns the start time of the process with this directory in /proc, or "" if there is no such process. The
// time distinguishes it from a later process with the same id.
func startedAt(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); len(fields) > 19 {
		return fields[19]
	}
	return ""
}

// uidSockets returns the names of the sockets that reserve uid ranges, by inode.
func uidSockets() (map[string]string, error) {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	held := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], "@berth-uid-") {
			held[f[6]] = f[7]
		}
	}
	return held, nil
}

// heldBy returns the inodes of the given sockets that the processes have open.
func heldBy(pids []int, sockets map[string]string) (map[string]bool, error) {
	ours := map[string]bool{}
	for _, pid := range pids {
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			return nil, err
		}
		for _, fd := range open {
			to, _ := os.Readlink(fd) // the descriptor may be closed already
			inode := strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")
			if sockets[inode] != "" {
				ours[inode] = true
			}
		}
	}
	return ours, nil
}
