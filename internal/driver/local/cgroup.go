package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// cgroups is where the cgroups of instances are made: one directory per instance below each of these. The
// keys are the controllers of version 1; unified is version 2, which has them all in one.
type cgroups map[string]cgroupPlace

// cgroupPlace is a directory in a hierarchy.
type cgroupPlace struct {
	hierarchy
	dir string
}

// group is the cgroups of one instance, in the same form.
type group map[string]string

const unified = "unified"

// period is over which the use of processors is counted, in microseconds.
const period = 100_000

// spare is how many processes more than its limit an instance's cgroup takes: they are its helper's
// threads, which must be there when the commands have used up all of theirs.
const spare = 64

// group names the cgroups of one run. No two runs have the same: the end of one may still be cleared up
// when the next begins.
func (c cgroups) group(id driver.ID) group {
	name := string(id) + "." + strings.ToLower(rand.Text()[:8])
	g := group{}
	for controller, place := range c {
		g[controller] = filepath.Join(place.dir, name)
	}
	return g
}

// leave removes the parents where nothing is left in them.
func (c cgroups) leave() {
	for _, place := range c {
		_ = os.Remove(place.dir)
	}
}

// make makes the cgroups with their limits.
func (g group) make(l driver.Limits) error {
	for name, dir := range g {
		if err := makeCgroup(dir); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		for _, s := range settings(name, l) {
			err := writeFile(dir, s.file, s.value)
			if err != nil && !(s.optional && errors.Is(err, fs.ErrNotExist)) {
				return fmt.Errorf("limit cgroup: %w", err)
			}
		}
	}
	return nil
}

// makeCgroup makes a parent again that another driver has just found empty and removed.
func makeCgroup(dir string) error {
	for try := 0; ; try++ {
		err := os.Mkdir(dir, 0o755)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) || try == 5 {
			return err
		}
		if err := makeParent(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// setting is what is written into a cgroup's file.
type setting struct {
	file, value string
	optional    bool // not every kernel has it
}

// settings of one controller for the limits.
func settings(controller string, l driver.Limits) []setting {
	quota := strconv.FormatInt(int64(math.Max(l.CPU*period, 1000)), 10)
	memory := strconv.FormatInt(l.MemoryBytes, 10)
	pids := strconv.FormatInt(l.Processes+spare, 10)
	var all []setting
	add := func(wanted bool, more ...setting) {
		if wanted {
			all = append(all, more...)
		}
	}
	switch controller {
	case "cpu":
		add(l.CPU > 0, setting{"cpu.cfs_period_us", strconv.Itoa(period), false}, setting{"cpu.cfs_quota_us", quota, false})
	case "memory":
		add(l.MemoryBytes > 0, setting{"memory.limit_in_bytes", memory, false}, setting{"memory.memsw.limit_in_bytes", memory, true})
	case "pids":
		add(l.Processes > 0, setting{"pids.max", pids, false})
	case unified:
		add(l.CPU > 0, setting{"cpu.max", quota + " " + strconv.Itoa(period), false})
		add(l.MemoryBytes > 0, setting{"memory.max", memory, false}, setting{"memory.swap.max", "0", true})
		add(l.Processes > 0, setting{"pids.max", pids, false})
	}
	return all
}

// writeFile writes to a file of the kernel's. Package os would have it watched meanwhile, which takes longer
// than writing to it.
func writeFile(dir, name, value string) error {
	path := filepath.Join(dir, name)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(value)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// procs lists the processes in the cgroups, by the controller that must be there.
func (g group) procs() ([]int, error) {
	dir := g.main()
	if dir == "" {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list cgroup: %w", err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// main is the cgroup that is asked for its processes.
func (g group) main() string {
	for _, name := range []string{unified, "freezer", "pids", "memory", "cpu"} {
		if dir := g[name]; dir != "" {
			return dir
		}
	}
	return ""
}

// canFreeze reports whether there is something to freeze with.
func (g group) canFreeze() bool { return g[unified] != "" || g["freezer"] != "" }

// freeze stops every process in the cgroups, or lets them go on, and waits until it is so.
func (g group) freeze(ctx context.Context, frozen bool) error {
	var err error
	switch {
	case g[unified] != "":
		err = writeFile(g[unified], "cgroup.freeze", map[bool]string{true: "1", false: "0"}[frozen])
	case g["freezer"] != "":
		err = writeFile(g["freezer"], "freezer.state", map[bool]string{true: "FROZEN", false: "THAWED"}[frozen])
	}
	if err != nil {
		return fmt.Errorf("freeze cgroup: %w", err)
	}
	for wait := 20 * time.Microsecond; g.frozen() != frozen; wait = min(2*wait, 5*time.Millisecond) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("wait for the freezer: %w", ctx.Err())
		}
	}
	return nil
}

// frozen reports whether every process in the cgroups is held.
func (g group) frozen() bool {
	if dir := g[unified]; dir != "" {
		return strings.Contains(glance(dir, "cgroup.events"), "frozen 1")
	}
	return strings.TrimSpace(glance(g["freezer"], "freezer.state")) == "FROZEN"
}

// glance reads a short file of the kernel's, or nothing, without package os as well: every command is
// preceded by this.
func glance(dir, name string) string {
	fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var buf [256]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// members are the processes in the cgroups that are an instance's. A thread of ours that has just started
// one may still be on its way out of there, and with it all of this process would be listed: whoever is
// in our own process namespace is never taken for an instance's.
func (g group) members() ([]int, error) {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, fmt.Errorf("tell processes apart: %w", err)
	}
	pids, err := g.procs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pids, func(pid int) bool {
		space, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid")
		return err != nil || space == own
	}), nil
}

// signal signals every process of the instance in the cgroups.
func (g group) signal(sig unix.Signal) error {
	pids, err := g.members()
	for _, pid := range pids {
		err = errors.Join(err, ignoreGone(unix.Kill(pid, sig)))
	}
	return err
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// kill ends every process in the cgroups, frozen ones too.
func (g group) kill() error {
	if dir := g[unified]; dir != "" {
		if err := writeFile(dir, "cgroup.kill", "1"); err == nil {
			return nil
		}
	}
	err := g.signal(unix.SIGKILL)
	if g.canFreeze() && err == nil {
		// A held process of version 1 dies only when it is let go.
		err = g.thawDying()
	}
	return err
}

func (g group) thawDying() error {
	var err error
	if dir := g["freezer"]; dir != "" {
		err = writeFile(dir, "freezer.state", "THAWED")
	} else {
		err = writeFile(g[unified], "cgroup.freeze", "0")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remove removes the cgroups, ending what is still in them.
func (g group) remove(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := g.rmdir()
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		if err := g.kill(); err != nil {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("remove cgroup: %w: %w", ctx.Err(), err)
		}
	}
}

func (g group) rmdir() (err error) {
	for _, dir := range g {
		if e := unix.Rmdir(dir); e != nil && e != unix.ENOENT {
			err = e
		}
	}
	return err
}
