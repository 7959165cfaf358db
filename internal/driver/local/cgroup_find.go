package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// wanted are the controllers that bound an instance. Version 1 also has one that freezes; in version 2
// every cgroup can be frozen.
var wanted = []string{"cpu", "memory", "pids"}

// host is where the kernel's tables of cgroups are read; tests have their own.
type host struct {
	mountinfo, self string
	root            bool // may make cgroups anywhere
}

var thisHost = host{"/proc/self/mountinfo", "/proc/self/cgroup", false}

// findCgroups finds where cgroups can be made. An ordinary user may find nothing, root must.
func findCgroups(tier Tier) (cgroups, error) {
	h := thisHost
	h.root = tier == TierRoot
	found, err := h.find()
	if err != nil && tier != TierRoot {
		return cgroups{}, nil
	}
	return found, err
}

// find prefers version 2 where it has every controller, as one mount cannot belong to both.
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
	return h.findSplit(mounts)
}

func (h host) findSplit(mounts map[string]cgroupMount) (cgroups, error) {
	found := cgroups{}
	for _, name := range append(wanted, "freezer") {
		m, ok := mounts[name]
		if !ok {
			return nil, fmt.Errorf("find cgroups: the controller %s is not mounted", name)
		}
		dir, err := firstWritable(m.places("berth")...)
		if err != nil {
			return nil, fmt.Errorf("find cgroups: controller %s: %w", name, err)
		}
		found[name] = cgroupPlace{m.hierarchy, dir}
	}
	return found, nil
}

// firstWritable makes the first of the directories that can be made.
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

// hierarchy is a tree of cgroups: which part of it is mounted, and where.
type hierarchy struct{ root, mount string }

// relative is a cgroup as a path below the mount; what is not there is the mount itself.
func (h hierarchy) relative(cgroup string) string {
	rel, err := filepath.Rel(h.root, cgroup)
	if cgroup == "" || err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "."
	}
	return rel
}

// cgroupMount is a hierarchy with the one of its cgroups that this process is in.
type cgroupMount struct {
	hierarchy
	own string
}

// places are where a cgroup of that name could be: in this process's own, or at the top.
func (m cgroupMount) places(name string) []string {
	return []string{filepath.Join(m.mount, m.own, name), filepath.Join(m.mount, name)}
}

// mounts finds the hierarchies by their controllers.
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

// ownCgroups reads which cgroup a process or a thread is in, by controller.
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

// mountLine is what is of interest in a line of mountinfo.
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

// unescape undoes the octal escapes of spaces and the like.
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

// findUnified finds or makes a cgroup of version 2 whose children have every controller.
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

// delegate makes dir below top with the controllers handed down to its children.
func delegate(top, dir string) error {
	if err := hasAll(top, "cgroup.controllers"); err != nil {
		return err
	}
	if err := handDown(top); err != nil {
		return err
	}
	return makeParent(dir)
}

// makeParent makes the cgroup that those of instances are in.
func makeParent(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, "cgroup.subtree_control")); err != nil {
		return nil // version 1 hands everything down by itself
	}
	return handDown(dir)
}

// handDown enables the controllers for the children of a cgroup. A cgroup that has processes of its own
// cannot do that: they move into a child first, this one among them.
func handDown(dir string) error {
	if hasAll(dir, "cgroup.subtree_control") == nil {
		return nil
	}
	enable := "+" + strings.Join(wanted, " +")
	err := writeFile(dir, "cgroup.subtree_control", enable)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := stepDown(dir); err != nil {
		return err
	}
	return writeFile(dir, "cgroup.subtree_control", enable)
}

// stepDown moves a cgroup's processes into a child, unless somebody else's are among them.
func stepDown(dir string) error {
	pids, err := group{unified: dir}.procs()
	if err != nil {
		return err
	}
	if !slices.Equal(pids, []int{os.Getpid()}) {
		return fmt.Errorf("cgroup %s has other processes: %w", dir, unix.EBUSY)
	}
	leaf := filepath.Join(dir, "berth-server")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return writeFile(leaf, "cgroup.procs", strconv.Itoa(os.Getpid()))
}

func hasAll(dir, file string) error {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	have := strings.Fields(string(data))
	for _, name := range wanted {
		if !slices.Contains(have, name) {
			return fmt.Errorf("%s of cgroup %s lacks %s", file, dir, name)
		}
	}
	return nil
}
