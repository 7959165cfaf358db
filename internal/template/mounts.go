package template

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

var (
	// privateDirs are the directories of the sandbox and of the kernel. A mount must not be in or above them.
	privateDirs = []string{"/workspace", "/home/agent", "/proc", "/sys", "/dev", "/tmp", "/run"}
	// baseDirs are the main directories of a base. A mount may be below them but must not hide them.
	baseDirs = []string{"/", "/bin", "/etc", "/home", "/lib", "/lib32", "/lib64", "/root", "/sbin", "/usr", "/usr/bin", "/usr/lib", "/usr/sbin", "/var"}
)

func (c *checker) checkMounts() {
	var targets []string
	for i, m := range c.Mounts {
		key := fmt.Sprintf("mounts[%d]", i+1)
		if why := c.badSource(m.Source); why != "" {
			c.refuse(key+".source", m.Source, why, "write the absolute path of a directory on this machine that sandboxes may read")
		}
		why := badTarget(m.Target)
		target := filepath.Clean(m.Target)
		for _, other := range targets {
			if why == "" && (within(target, other) || within(other, target)) {
				why = "overlaps the mount at " + other
			}
		}
		if why != "" {
			c.refuse(key+".target", m.Target, why, "write an absolute path that nothing else uses, such as /opt/tools")
			continue
		}
		targets = append(targets, target)
	}
}

func (c *checker) badSource(source string) string {
	switch {
	case source == "":
		return "is missing"
	case !filepath.IsAbs(source):
		return "is relative"
	}
	if why := isDir(source); why != "" {
		return why
	}
	return c.exposes(source)
}

func badTarget(target string) string {
	clean := filepath.Clean(target)
	switch {
	case target == "":
		return "is missing"
	case !filepath.IsAbs(target):
		return "is relative"
	case slices.Contains(baseDirs, clean):
		return "would hide a part of the base"
	}
	for _, p := range privateDirs {
		if within(clean, p) || within(p, clean) {
			return "lies over " + p + ", which is the sandbox's own"
		}
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
