package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Close ends the containers, the daemon and all processes that it started, and removes its directory and cgroups.
func (d *Daemon) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if d.mounts != "" {
		_ = d.RemoveAll(ctx) // if this fails, endStrays kills the containers
		d.CloseIdleConnections()
	}
	d.stop(ctx)
	return errors.Join(d.endStrays(ctx), removeCgroups(d.cgroup), os.RemoveAll(d.dir))
}

func (d *Daemon) stop(ctx context.Context) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = d.cmd.Process.Signal(sig) // the process may have ended already
		select {
		case <-d.gone:
			return
		case <-ctx.Done():
		}
	}
	<-d.gone
}

// endStrays kills the processes that a killed daemon leaves behind: containerd and the containers' shims, which are in
// its mount namespace, and the containers' processes, which are in its cgroup.
func (d *Daemon) endStrays(ctx context.Context) error {
	for {
		strays, err := d.strays()
		if err != nil || len(strays) == 0 {
			return err
		}
		for _, pid := range strays {
			_ = syscall.Kill(pid, syscall.SIGKILL) // the process may have ended already
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end what dockerd started: %v still run", strays)
		case <-time.After(glance):
		}
	}
}

func (d *Daemon) strays() (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		mounts, _ := os.Readlink(filepath.Join("/proc", e.Name(), "ns/mnt")) // the process may have ended already
		groups, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup"))
		if mounts != "" && mounts == d.mounts || bytes.Contains(groups, []byte("/"+d.cgroup+"/")) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// removeCgroups removes the cgroup with this name from every hierarchy. It must have no processes.
func removeCgroups(name string) error {
	const mounts = "/sys/fs/cgroup"
	roots, err := filepath.Glob(filepath.Join(mounts, "*", name))
	if err != nil {
		return err
	}
	var dirs []string
	for _, root := range append(roots, filepath.Join(mounts, name)) {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	slices.Reverse(dirs) // children before their parents
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
