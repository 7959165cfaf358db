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

// cgroups holds the parent directories for the cgroups of instances. Each instance gets a directory below each of them.
// The keys are the controllers of cgroup version 1, or only unified for version 2, which has one hierarchy.
type cgroups map[string]cgroupDir

// cgroupDir is a directory in a hierarchy of cgroups.
type cgroupDir struct {
	hierarchy
	dir string
}

// group holds the directories of one instance's cgroups. It has the same keys as cgroups.
type group map[string]string

const unified = "unified"

// cpuPeriod is the period of CPU quotas, in microseconds.
const cpuPeriod = 100_000

// spareProcesses is added to the process limit of an instance's cgroup. The helper's threads need it when the commands have
// used up the limit.
const spareProcesses = 64

// group returns new names for the cgroups of one run. Each run has its own names, because the cgroups of the last run
// may still exist when the next begins.
func (c cgroups) group(id driver.ID) group {
	name := string(id) + "." + strings.ToLower(rand.Text()[:8])
	g := group{}
	for controller, d := range c {
		g[controller] = filepath.Join(d.dir, name)
	}
	return g
}

// removeParents removes the parent directories that are empty.
func (c cgroups) removeParents() {
	for _, d := range c {
		_ = os.Remove(d.dir)
	}
}

// make makes the cgroups of an instance and sets its limits.
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

// makeCgroup makes a cgroup. It makes the parent again if another driver has just removed it as empty.
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

// setting is a file of a cgroup and the value to write to it.
type setting struct {
	file, value string
	optional    bool // not every kernel has the file
}

// settings returns the settings of one controller for the limits.
func settings(controller string, l driver.Limits) []setting {
	memory := strconv.FormatInt(l.MemoryBytes, 10)
	pids := strconv.FormatInt(l.Processes+spareProcesses, 10)
	var all []setting
	add := func(wanted bool, more ...setting) {
		if wanted {
			all = append(all, more...)
		}
	}
	switch controller {
	case "cpu":
		add(l.CPU > 0, cpuSettings(false, l.CPU)...)
	case "memory":
		add(l.MemoryBytes > 0, setting{"memory.limit_in_bytes", memory, false}, setting{"memory.memsw.limit_in_bytes", memory, true},
			setting{socketsFile, strconv.FormatInt(socketBytes(l.MemoryBytes), 10), true})
	case "pids":
		add(l.Processes > 0, setting{"pids.max", pids, false})
	case unified:
		add(l.CPU > 0, cpuSettings(true, l.CPU)...)
		add(l.MemoryBytes > 0, setting{"memory.max", memory, false}, setting{"memory.swap.max", "0", true})
		add(l.Processes > 0, setting{"pids.max", pids, false})
	}
	return all
}

// cpuSettings returns the settings for a CPU quota, in processors.
func cpuSettings(unified bool, cpus float64) []setting {
	quota := strconv.FormatInt(int64(math.Max(cpus*cpuPeriod, 1000)), 10)
	if unified {
		return []setting{{"cpu.max", quota + " " + strconv.Itoa(cpuPeriod), false}}
	}
	return []setting{{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod), false}, {"cpu.cfs_quota_us", quota, false}}
}

// socketsFile sets the limit of cgroup version 1 for the buffers of TCP and UDP sockets, and socketsUsedFile has their
// size. Version 1 counts them separately from the memory, version 2 as a part of it.
const (
	socketsFile     = "memory.kmem.tcp.limit_in_bytes"
	socketsUsedFile = "memory.kmem.tcp.usage_in_bytes"
)

// socketBytes returns the limit for the buffers of sockets in version 1. It applies in addition to the memory limit.
func socketBytes(memory int64) int64 { return min(max(memory/8, 4<<20), 256<<20) }

// writeFile writes to a file of the kernel, such as a cgroup's. It does not use package os, which would register the
// file with the poller; that takes longer than the write.
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

// procs lists the processes in the cgroups. It reads one cgroup, because all of them hold the same processes.
func (g group) procs() ([]int, error) {
	dir := g.procsDir()
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

// procsDir returns the directory of the cgroup from which procs reads the processes.
func (g group) procsDir() string {
	for _, name := range []string{unified, "freezer", "pids", "memory", "cpu"} {
		if dir := g[name]; dir != "" {
			return dir
		}
	}
	return ""
}

// canFreeze reports whether the cgroups can be frozen.
func (g group) canFreeze() bool { return g[unified] != "" || g["freezer"] != "" }

// freeze freezes or thaws every process in the cgroups and waits until the kernel has done so.
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

// frozen reports whether every process in the cgroups is frozen.
func (g group) frozen() bool {
	if dir := g[unified]; dir != "" {
		return strings.Contains(readShort(dir, "cgroup.events"), "frozen 1")
	}
	return strings.TrimSpace(readShort(g["freezer"], "freezer.state")) == "FROZEN"
}

// readShort reads a file of the kernel, up to 256 bytes. It returns an empty string after an error. Like writeFile, it
// does not use package os, because it runs before every command.
func readShort(dir, name string) string {
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

// members lists the processes of the instance in the cgroups. A thread of the server that has just started the helper
// may still be in the cgroups, and then the kernel lists the server's process too. So members leaves out processes in
// the server's own process namespace.
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

// signal sends sig to every process of the instance in the cgroups.
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
		// In version 1 a frozen process dies only after it was thawed.
		err = g.thawDying()
	}
	return err
}

// thawDying thaws the cgroups, so that killed processes in them can end. It ignores cgroups that do not exist.
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

// remove removes the cgroups and ends the processes in them.
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
