package local

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// facts are properties of this machine and process that can explain a failure.
type facts struct {
	root         bool // this process is root
	container    bool // this process is in a container
	usernsSwitch bool // the distribution has turned off user namespaces for ordinary users
	apparmor     bool // AppArmor restricts user namespaces for ordinary users
	noUserns     bool // the limit for the number of user namespaces is zero
	noOverlay    bool // the kernel has not loaded overlay file systems
}

func readFacts(root string) facts {
	is := func(path, value string) bool {
		data, err := os.ReadFile(filepath.Join(root, path))
		return err == nil && string(bytes.TrimSpace(data)) == value
	}
	there := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
	systems, err := os.ReadFile(filepath.Join(root, "proc/filesystems"))
	return facts{
		root:         os.Geteuid() == 0,
		container:    there(".dockerenv") || there("run/.containerenv"),
		usernsSwitch: is("proc/sys/kernel/unprivileged_userns_clone", "0"),
		apparmor:     is("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
		noUserns:     is("proc/sys/user/max_user_namespaces", "0"),
		noOverlay:    err == nil && !bytes.Contains(systems, []byte("\toverlay\n")),
	}
}

const dockerFlags = "--security-opt seccomp=unconfined --security-opt systempaths=unconfined"

// diagnosis is a possible reason why instances cannot be made. fits reports whether it explains an error.
type diagnosis struct {
	fits            func(error, facts) bool
	problem, remedy string
}

// diagnoses are all diagnoses. The first that fits is used, so the more specific ones come first.
var diagnoses = []diagnosis{
	{func(err error, f facts) bool {
		return cloneFailed(err, unix.ENOSPC) || cloneFailed(err, unix.EUSERS) || f.noUserns && cloneFailed(err, unix.EPERM)
	},
		"user namespaces are used up or turned off (user.max_user_namespaces)",
		"raise the limit: sysctl -w user.max_user_namespaces=15000"},
	{func(err error, f facts) bool { return cloneFailed(err, unix.EPERM) && f.usernsSwitch && !f.root },
		"this distribution turns off user namespaces for ordinary users",
		"allow them: sysctl -w kernel.unprivileged_userns_clone=1, or run Berth as root"},
	{func(err error, f facts) bool { return permissionMissing(err) && f.apparmor && !f.root },
		"AppArmor restricts user namespaces for ordinary users",
		"allow them: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or load a profile for berth with the rule userns, or run Berth as root"},
	{func(err error, f facts) bool { return permissionMissing(err) && f.container },
		"this container does not let a process make namespaces or mount /proc",
		"start it with: docker run " + dockerFlags},
	{func(err error, f facts) bool { return cloneFailed(err, unix.EPERM) || cloneFailed(err, unix.EACCES) },
		"the kernel or a security module refuses user namespaces to this process",
		"in a container, start it with " + dockerFlags + "; otherwise look for a policy that forbids clone(CLONE_NEWUSER)"},
	{func(err error, f facts) bool { return cloneFailed(err, unix.EINVAL) || cloneFailed(err, unix.ENOSYS) },
		"the kernel has no user namespaces",
		"use a kernel with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS"},
	{textContains("find cgroups"),
		"no cgroup can be made in which instances would be limited",
		"mount the cgroup file systems writable; in Docker: --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw"},
	{textContains("map the owners of"),
		"the file system of the data directory, or of the base, has no idmapped mounts",
		"keep the data directory on ext4, xfs or btrfs, with a kernel from 5.19 on"},
	{func(err error, f facts) bool { return f.noOverlay && textContains("overlay")(err, f) },
		"the kernel does not know overlay file systems",
		"load the module: modprobe overlay"},
	{textContains("mount the root"),
		"the data directory cannot be the upper layer of an overlay",
		"keep the data directory on a local file system such as ext4, xfs or btrfs, not on overlay or a network share, with a kernel from 5.19 on"},
	{textContains("mount /proc"),
		"parts of /proc are hidden from this process, so that an instance cannot have its own",
		"in Docker, start the container with " + dockerFlags},
	{textContains("filter system calls"),
		"the kernel has no system call filters",
		"use a kernel with CONFIG_SECCOMP_FILTER"},
	{textContains("enter a cgroup namespace"),
		"the kernel has no cgroup namespaces, or this program was built with cgo",
		"use a kernel with CONFIG_CGROUPS, and build with CGO_ENABLED=0"},
	{textContains("the helper ended before it was ready"),
		"this program cannot be started again as an instance's first process",
		"see that the program's file may be executed by everybody, and that it was built with CGO_ENABLED=0"},
}

// cloneFailed reports whether the start of the helper failed with errno.
func cloneFailed(err error, errno unix.Errno) bool {
	return strings.Contains(err.Error(), "clone the helper") && errors.Is(err, errno)
}

// permissionMissing reports whether the permission to make namespaces, or to mount file systems in them, was missing.
func permissionMissing(err error) bool {
	return cloneFailed(err, unix.EPERM) || cloneFailed(err, unix.EACCES) || errors.Is(err, fs.ErrPermission) ||
		strings.Contains(err.Error(), unix.EPERM.Error()) || strings.Contains(err.Error(), unix.EACCES.Error())
}

// textContains returns a test for errors whose text contains the words. The helper sends its errors only as text.
func textContains(words string) func(error, facts) bool {
	return func(err error, _ facts) bool { return strings.Contains(err.Error(), words) }
}

// explain returns the report for a failed trial, with the reason and a remedy.
func explain(err error, f facts) Report {
	for _, d := range diagnoses {
		if d.fits(err, f) {
			return Report{Tier: TierNone, Problem: d.problem + ": " + err.Error(), Remedy: d.remedy}
		}
	}
	return Report{
		Tier: TierNone, Problem: "no instance can be made: " + err.Error(),
		Remedy: "see that the data directory is on a local file system with free space, and that the kernel is 5.19 or newer",
	}
}
