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

// Without cgroups, the driver finds an instance's processes by their process namespace and freezes them with SIGSTOP.
// While it sends the signals, a process may start another one. So it repeats until all are stopped.

// processes returns the processes of an instance. An empty group means that the instance has no cgroups.
func (g group) processes(alive *running) ([]int, error) {
	if len(g) == 0 {
		return namespaceProcesses(alive.pid)
	}
	return g.members()
}

// others returns the processes of an instance without its helper.
func (d *Driver) others(g group, alive *running) ([]int, error) {
	pids, err := g.processes(alive)
	var others []int
	for _, pid := range pids {
		if pid != alive.pid {
			others = append(others, pid)
		}
	}
	return others, err
}

// namespaceProcesses returns the processes in the process namespace of pid. It is an error if that is the server's own.
func namespaceProcesses(pid int) ([]int, error) {
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

// hold stops or continues every process of an instance with signals.
func hold(ctx context.Context, alive *running, stop bool) error {
	if !stop {
		return signalNamespace(alive, unix.SIGCONT)
	}
	for ctx.Err() == nil {
		if err := signalNamespace(alive, unix.SIGSTOP); err != nil {
			return err
		}
		pids, err := namespaceProcesses(alive.pid)
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
	return errors.Join(ctx.Err(), signalNamespace(alive, unix.SIGCONT))
}

func signalNamespace(alive *running, sig unix.Signal) error {
	pids, err := namespaceProcesses(alive.pid)
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

// stopped reports whether a process does not run after SIGSTOP. It has stopped or ended, or it waits in the kernel and
// will stop before it returns from there. It may wait for a child that it has just forked and that is stopped.
func stopped(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	// The state follows the name, which may contain any character and ends with the last parenthesis.
	_, rest, _ := cutLast(string(data), ") ")
	return strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "D") || strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
