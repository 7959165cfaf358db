package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Without cgroups, an instance's processes are those in its process namespace, and freezing is stopping
// them all. What is stopped cannot start anything, so it takes a few rounds to find the last one.

// others are the processes of an instance but its helper.
func (d *Driver) others(g group, alive *running) ([]int, error) {
	list := g.members
	if len(g) == 0 {
		list = func() ([]int, error) { return namesakes(alive.pid) }
	}
	pids, err := list()
	var others []int
	for _, pid := range pids {
		if pid != alive.pid {
			others = append(others, pid)
		}
	}
	return others, err
}

// namesakes are the processes in the same process namespace.
func namesakes(pid int) ([]int, error) {
	space, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid")
	if err != nil {
		return nil, fmt.Errorf("find the instance's processes: %w", err)
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil || own == space {
		return nil, fmt.Errorf("find the instance's processes: they are not apart from ours: %w", err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("find the instance's processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if of, err := os.Readlink("/proc/" + e.Name() + "/ns/pid"); err == nil && of == space {
			pids = append(pids, n)
		}
	}
	return pids, nil
}

// hold stops every process of an instance, or lets them go on. The helper is the first to stop, so that no
// new command begins, and the last to go on.
func hold(ctx context.Context, alive *running, stop bool) error {
	if !stop {
		return signalSpace(alive, unix.SIGCONT)
	}
	for ctx.Err() == nil {
		if err := signalSpace(alive, unix.SIGSTOP); err != nil {
			return err
		}
		pids, err := namesakes(alive.pid)
		if err != nil {
			return err
		}
		if allStopped(pids) {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	return errors.Join(ctx.Err(), signalSpace(alive, unix.SIGCONT))
}

func signalSpace(alive *running, sig unix.Signal) error {
	pids, err := namesakes(alive.pid)
	for _, pid := range pids {
		err = errors.Join(err, ignoreGone(unix.Kill(pid, sig)))
	}
	return err
}

func allStopped(pids []int) bool {
	for _, pid := range pids {
		if !stopped(pid) {
			return false
		}
	}
	return true
}

// stopped reports whether a process that was told to stop does nothing: it has stopped, or ended, or waits
// in the kernel and stops before it comes back. That may be for a child which it has just forked and which
// is stopped itself.
func stopped(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	// The name before it may hold anything, but ends with the last parenthesis.
	_, rest, _ := cutLast(string(data), ") ")
	return strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "D") || strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
