package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
func (sw sweeper) runsWithoutDirectory(id driver.ID) (runs []group) {
	parent := sw.d.groups.group("").procsDir()
	if parent == "" {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Dir(parent))
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		if !idForm.MatchString(name) || id != "" && name != string(id) {
			continue
		}
		if _, err := os.Lstat(sw.d.dirs.path(driver.ID(name))); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		g := group{}
		for controller, parent := range sw.d.groups {
			g[controller] = filepath.Join(parent.dir, e.Name())
		}
		runs = append(runs, g)
	}
	return runs
}

// spoolsRemoved reports whether one of the processes holds a directory of spools that was removed. The helper holds it
// open, and it is removed only after the helper's end, so it was removed by hand. This is true of instances of other
// drivers too.
func spoolsRemoved(pids []int) bool {
	for _, pid := range pids {
		var st unix.Stat_t
		err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/fd/"+strconv.Itoa(pid1.SpoolsFD), &st)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Nlink == 0 && firstOfNamespace(pid) {
			return true
		}
	}
	return false
}

// firstOfNamespace reports whether a process is the first in its process namespace, as the helper is.
func firstOfNamespace(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err == nil && strings.Contains(string(status), "\nNSpid:\t"+strconv.Itoa(pid)+"\t1\n")
}
