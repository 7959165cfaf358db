package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// neededControllers are the controllers that limit an instance. Version 1 also needs the controller freezer; in version
// 2 every cgroup can be frozen.
var neededControllers = []string{"cpu", "memory", "pids"}

// host holds the paths of the kernel's tables of cgroups. Tests use other files.
type host struct {
	mountinfo, self string
	root            bool // this process may make cgroups anywhere
}

var thisHost = host{"/proc/self/mountinfo", "/proc/self/cgroup", false}

// findCgroups finds or makes the parent directories for cgroups of instances. It is an error if there are none in
// TierRoot. In other tiers it then returns no directories.
func findCgroups(tier Tier) (cgroups, error) {
	h := thisHost
	h.root = tier == TierRoot
	found, err := h.find()
	if err != nil && tier != TierRoot {
		return cgroups{}, nil
	}
	return found, err
}

// find uses cgroup version 2 if that has every controller, and version 1 otherwise.
func (h host) find() (cgroups, error) {
	mounts, err := h.mounts()
	if err != nil {
		return nil, err
	}
	if m, ok := mounts[unified]; ok {
		if dir, err := h.findUnified(m); err == nil {
			return cgroups{unified: {m.hierarchy, dir}}, nil
		} else if _, both := mounts["pids"]; !both {
			return nil, err
		}
	}
	return h.findVersion1(mounts)
}

func (h host) findVersion1(mounts map[string]cgroupMount) (cgroups, error) {
	found := cgroups{}
	for _, name := range append(neededControllers, "freezer") {
		m, ok := mounts[name]
		if !ok {
			return nil, fmt.Errorf("find cgroups: the controller %s is not mounted", name)
		}
		dir, err := firstWritable(m.candidates("berth")...)
		if err != nil {
			return nil, fmt.Errorf("find cgroups: controller %s: %w", name, err)
		}
		setWeight(dir)
		found[name] = cgroupDir{m.hierarchy, dir}
	}
	if m, ok := mounts["cpuacct"]; ok && m.mount != mounts["cpu"].mount {
		if dir, err := firstWritable(m.candidates("berth")...); err == nil {
			found["cpuacct"] = cgroupDir{m.hierarchy, dir}
		}
	}
	return found, nil
}

// firstWritable returns the first of the directories that can be made, or that exists and is writable.
func firstWritable(dirs ...string) (string, error) {
	var failure error
	for _, dir := range dirs {
		err := os.Mkdir(dir, 0o755)
		if err == nil || errors.Is(err, fs.ErrExist) && unix.Access(dir, unix.W_OK) == nil {
			return dir, nil
		}
		failure = errors.Join(failure, err)
	}
	return "", failure
}

// hierarchy is a mounted tree of cgroups: root is the cgroup that is mounted, mount is the mount point.
type hierarchy struct{ root, mount string }

// relative returns the path of a cgroup below the mount. It returns "." for a cgroup outside of the mounted part.
func (h hierarchy) relative(cgroup string) string {
	rel, err := filepath.Rel(h.root, cgroup)
	if cgroup == "" || err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "."
	}
	return rel
}

// cgroupMount is a hierarchy and this process's cgroup in it.
type cgroupMount struct {
	hierarchy
	own string // path below the mount
}

// candidates returns the possible directories for a cgroup of that name: below this process's own cgroup, or below the
// mount.
func (m cgroupMount) candidates(name string) []string {
	return []string{filepath.Join(m.mount, m.own, name), filepath.Join(m.mount, name)}
}

// mounts returns the mounted hierarchies by their controllers.
func (h host) mounts() (map[string]cgroupMount, error) {
	own, err := ownCgroups(h.self)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(h.mountinfo)
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	found := map[string]cgroupMount{}
	for line := range strings.Lines(string(data)) {
		m, ok := parseMount(line)
		if !ok {
			continue
		}
		for _, name := range m.controllers() {
			found[name] = cgroupMount{m.hierarchy, m.relative(own[name])}
		}
	}
	return found, nil
}

// ownCgroups reads the cgroups of a process or a thread from its file in /proc, by controller.
func ownCgroups(file string) (map[string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	own := map[string]string{}
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[0] == "0" && fields[1] == "" {
			own[unified] = fields[2]
			continue
		}
		for name := range strings.SplitSeq(fields[1], ",") {
			own[name] = fields[2]
		}
	}
	return own, nil
}

// mountLine holds the fields of a line of mountinfo that are needed here.
type mountLine struct {
	hierarchy
	kind, options string
}

func parseMount(line string) (mountLine, bool) {
	left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
	a, b := strings.Fields(left), strings.Fields(right)
	if !ok || len(a) < 5 || len(b) < 3 {
		return mountLine{}, false
	}
	return mountLine{hierarchy{unescape(a[3]), unescape(a[4])}, b[0], b[2]}, true
}

// unescape decodes the octal escapes of spaces, tabs, newlines and backslashes.
func unescape(s string) string {
	for _, c := range []int{' ', '\t', '\n', '\\'} {
		s = strings.ReplaceAll(s, fmt.Sprintf(`\%03o`, c), string(rune(c)))
	}
	return s
}

func (m mountLine) controllers() []string {
	switch m.kind {
	case "cgroup2":
		return []string{unified}
	case "cgroup":
		return strings.Split(m.options, ",")
	}
	return nil
}

// findUnified finds or makes a cgroup of version 2 whose children can use every controller.
func (h host) findUnified(m cgroupMount) (string, error) {
	var failure error
	tops := []string{filepath.Join(m.mount, m.own)}
	if h.root && m.own != "." {
		tops = append(tops, m.mount)
	}
	for _, top := range tops {
		dir := filepath.Join(top, "berth")
		err := delegate(top, dir)
		if err == nil {
			return dir, nil
		}
		failure = errors.Join(failure, err)
	}
	return "", fmt.Errorf("find cgroups: %w", failure)
}

// delegate makes the cgroup dir below top and enables the controllers for its children.
func delegate(top, dir string) error {
	if err := has(top, "cgroup.controllers", neededControllers...); err != nil {
		return err
	}
	if err := enableControllers(top); err != nil {
		return err
	}
	_ = writeFile(filepath.Join(top, serverLeaf), "cpu.weight", serverWeight) // exists if moveToLeaf was necessary
	return makeParent(dir)
}

// serverLeaf is the cgroup of version 2 into which moveToLeaf moves the server. Its CPU weight is ten times that of all
// instances together.
const (
	serverLeaf   = "berth-server"
	serverWeight = "1000"
)

// makeParent makes the parent of the instances' cgroups.
func makeParent(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, "cgroup.subtree_control")); err != nil {
		setWeight(dir)
		return nil // version 1, in which children need no enabling
	}
	return enableControllers(dir)
}

// setWeight sets the CPU shares of the parent of all instances in version 1: the default for each processor. With the
// default alone, all instances together would get as much time as one other process. In version 2 the weight of
// serverLeaf has this purpose.
func setWeight(parent string) {
	_ = writeFile(parent, "cpu.shares", strconv.Itoa(1024*runtime.NumCPU()))
}

// enableControllers enables the controllers for the children of a cgroup. The kernel refuses that for a cgroup that has
// processes, so moveToLeaf first moves this process into a child.
func enableControllers(dir string) error {
	all := neededControllers
	if has(dir, "cgroup.controllers", "io") == nil {
		all = append(all[:len(all):len(all)], "io") // optional; limits writes to disks
	}
	if has(dir, "cgroup.subtree_control", all...) == nil {
		return nil
	}
	enable := "+" + strings.Join(all, " +")
	err := writeFile(dir, "cgroup.subtree_control", enable)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := moveToLeaf(dir); err != nil {
		return err
	}
	return writeFile(dir, "cgroup.subtree_control", enable)
}

// moveToLeaf moves this process from a cgroup into a child of it. It is an error if the cgroup has other processes.
func moveToLeaf(dir string) error {
	pids, err := group{unified: dir}.procs()
	if err != nil {
		return err
	}
	if !slices.Equal(pids, []int{os.Getpid()}) {
		return fmt.Errorf("cgroup %s has other processes: %w", dir, unix.EBUSY)
	}
	leaf := filepath.Join(dir, serverLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return writeFile(leaf, "cgroup.procs", strconv.Itoa(os.Getpid()))
}

// has returns an error if a file of a cgroup does not list all of the controllers.
func has(dir, file string, controllers ...string) error {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	have := strings.Fields(string(data))
	for _, name := range controllers {
		if !slices.Contains(have, name) {
			return fmt.Errorf("%s of cgroup %s lacks %s", file, dir, name)
		}
	}
	return nil
}
