package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest/pid1"
)

// endRemoved ends the processes of an instance whose directory was removed by hand while it ran; an empty id means all
// such instances. Without cgroups it does nothing, because then there is no list of what runs.
func (sw sweeper) endRemoved(id driver.ID) {
	for _, g := range sw.runsWithoutDirectory(id) {
		pids, err := g.members()
		if err != nil || !spoolsRemoved(pids) {
			continue
		}
		ctx, cancel := context.WithTimeout(sw.d.ctx, patience)
		err = errors.Join(g.kill(), g.remove(ctx))
		cancel()
		sw.d.opts.Log.Warn("ended an instance whose directory was removed", "cgroup", g.procsDir(), "error", err)
	}
}

// runsWithoutDirectory returns the cgroups of instances that this driver has no directory of. Most of them are
// instances of other drivers.
func (sw sweeper) runsWithoutDirectory(id driver.ID) []group {
	return sw.d.groups.runs(func(name driver.ID) bool {
		if id != "" && name != id {
			return false
		}
		_, err := os.Lstat(sw.d.dirs.path(name))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// runs returns the cgroups of the instances that are chosen by their ids. An instance may have several.
func (c cgroups) runs(chosen func(driver.ID) bool) (runs []group) {
	parent := c.group("").procsDir()
	if parent == "" {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Dir(parent))
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		if !idForm.MatchString(name) || !chosen(driver.ID(name)) {
			continue
		}
		g := group{}
		for controller, parent := range c {
			g[controller] = filepath.Join(parent.dir, e.Name())
		}
		runs = append(runs, g)
	}
	return runs
}

// runningIn returns the cgroups of the processes that run in an instance's directory: its helper holds the directory of
// spools open. Nil means that nothing runs there.
func (c cgroups) runningIn(p *instanceDir) group {
	var spools unix.Stat_t
	if err := unix.Stat(p.join(spoolDir), &spools); err != nil {
		return nil
	}
	for _, g := range c.runs(func(driver.ID) bool { return true }) {
		pids, _ := g.members()
		if slices.ContainsFunc(pids, func(pid int) bool {
			st, ok := spoolsOf(pid)
			return ok && st.Dev == spools.Dev && st.Ino == spools.Ino
		}) {
			return g
		}
	}
	return nil
}

// spoolsRemoved reports whether one of the processes holds a directory of spools that was removed. The helper holds it
// open, and it is removed only after the helper's end, so it was removed by hand. This is true of instances of other
// drivers too.
func spoolsRemoved(pids []int) bool {
	return slices.ContainsFunc(pids, func(pid int) bool {
		st, ok := spoolsOf(pid)
		return ok && st.Nlink == 0
	})
}

// spoolsOf returns the directory of spools that a helper holds open. ok is false for other processes.
func spoolsOf(pid int) (st unix.Stat_t, ok bool) {
	err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/fd/"+strconv.Itoa(pid1.SpoolsFD), &st)
	return st, err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && firstOfNamespace(pid)
}

// firstOfNamespace reports whether a process is the first in its process namespace, as the helper is.
func firstOfNamespace(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err == nil && strings.Contains(string(status), "\nNSpid:\t"+strconv.Itoa(pid)+"\t1\n")
}
