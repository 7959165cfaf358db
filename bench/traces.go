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

// trace is what running sandboxes show of themselves on the host. Others may run sandboxes beside us, so
// everything is known by what is ours alone: names, inodes, start times.
type trace struct {
	dir       string            // where their files are
	names     []string          // which their directories and cgroups carry
	processes map[string]string // directory in /proc → when it was started
	sockets   map[string]bool   // inodes of the sockets that hold their uid ranges
}

// traces notes the traces of running sandboxes. That some of each kind are there shows that looking for
// them later means something.
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

// gone waits until no trace is left; cleaning up goes on behind a delete. What stays is an error.
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

// named lists the directories below root that carry a sandbox's name, without those below them.
func (t *trace) named(root string) (found []string, err error) {
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it went while we looked
		case err != nil:
			return err
		case e.IsDir() && t.carries(e.Name()):
			found = append(found, path)
			return fs.SkipDir
		}
		return nil
	})
	return found, err
}

func (t *trace) carries(name string) bool {
	for _, n := range t.names {
		if strings.Contains(name, n) {
			return true
		}
	}
	return false
}

// startedAt tells a process from another that got its number later; empty: there is none.
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

// uidSockets lists the sockets that hold uid ranges: inode → name.
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

// heldBy picks the sockets that the processes have open.
func heldBy(pids []int, sockets map[string]string) (map[string]bool, error) {
	ours := map[string]bool{}
	for _, pid := range pids {
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			return nil, err
		}
		for _, fd := range open {
			to, _ := os.Readlink(fd) // it may be closed meanwhile
			inode := strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")
			if sockets[inode] != "" {
				ours[inode] = true
			}
		}
	}
	return ours, nil
}
