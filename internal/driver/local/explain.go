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

// facts are what is known of this machine that explains a failure.
type facts struct {
	root         bool // this process is root
	container    bool // it is in a container
	usernsSwitch bool // the distribution has turned off user namespaces for ordinary users
	apparmor     bool // AppArmor restricts them
	noUserns     bool // their number is limited to none
	noOverlay    bool // the kernel does not know overlay file systems, now
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

// diagnosis is one reason why instances cannot be made.
type diagnosis struct {
	fits            func(error, facts) bool
	problem, remedy string
}

// diagnoses, the more specific ones first.
var diagnoses = []diagnosis{
	{func(err error, f facts) bool {
		return cloning(err, unix.ENOSPC) || cloning(err, unix.EUSERS) || f.noUserns && cloning(err, unix.EPERM)
	},
		"user namespaces are used up or turned off (user.max_user_namespaces)",
		"raise the limit: sysctl -w user.max_user_namespaces=15000"},
	{func(err error, f facts) bool { return cloning(err, unix.EPERM) && f.usernsSwitch && !f.root },
		"this distribution turns off user namespaces for ordinary users",
		"allow them: sysctl -w kernel.unprivileged_userns_clone=1, or run Berth as root"},
	{func(err error, f facts) bool { return denied(err) && f.apparmor && !f.root },
		"AppArmor restricts user namespaces for ordinary users",
		"allow them: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or load a profile for berth with the rule userns, or run Berth as root"},
	{func(err error, f facts) bool { return denied(err) && f.container },
		"this container does not let a process make namespaces or mount /proc",
		"start it with: docker run " + dockerFlags},
	{func(err error, f facts) bool { return cloning(err, unix.EPERM) || cloning(err, unix.EACCES) },
		"the kernel or a security module refuses user namespaces to this process",
		"in a container, start it with " + dockerFlags + "; otherwise look for a policy that forbids clone(CLONE_NEWUSER)"},
	{func(err error, f facts) bool { return cloning(err, unix.EINVAL) || cloning(err, unix.ENOSYS) },
		"the kernel has no user namespaces",
		"use a kernel with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS"},
	{says("find cgroups"),
		"no cgroup can be made in which instances would be limited",
		"mount the cgroup file systems writable; in Docker: --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw"},
	{says("map the owners of"),
		"the file system of the data directory, or of the base, has no idmapped mounts",
		"keep the data directory on ext4, xfs or btrfs, with a kernel from 5.19 on"},
	{func(err error, f facts) bool { return f.noOverlay && says("overlay")(err, f) },
		"the kernel does not know overlay file systems",
		"load the module: modprobe overlay"},
	{says("mount the root"),
		"the data directory cannot be the upper layer of an overlay",
		"keep the data directory on a local file system such as ext4, xfs or btrfs, not on overlay or a network share, with a kernel from 5.19 on"},
	{says("mount /proc"),
		"parts of /proc are hidden from this process, so that an instance cannot have its own",
		"in Docker, start the container with " + dockerFlags},
	{says("filter system calls"),
		"the kernel has no system call filters",
		"use a kernel with CONFIG_SECCOMP_FILTER"},
	{says("enter a cgroup namespace"),
		"the kernel has no cgroup namespaces, or this program was built with cgo",
		"use a kernel with CONFIG_CGROUPS, and build with CGO_ENABLED=0"},
	{says("the helper ended before it was ready"),
		"this program cannot be started again as an instance's first process",
		"see that the program's file may be executed by everybody, and that it was built with CGO_ENABLED=0"},
}

// cloning reports whether the helper could not be started, for that reason.
func cloning(err error, errno unix.Errno) bool {
	return strings.Contains(err.Error(), "clone the helper") && errors.Is(err, errno)
}

// denied reports whether a permission was missing, to make namespaces or to mount in them.
func denied(err error) bool {
	return cloning(err, unix.EPERM) || cloning(err, unix.EACCES) || errors.Is(err, fs.ErrPermission) ||
		strings.Contains(err.Error(), unix.EPERM.Error()) || strings.Contains(err.Error(), unix.EACCES.Error())
}

// says is for errors that are known by their words: the helper has nothing else to tell.
func says(words string) func(error, facts) bool {
	return func(err error, _ facts) bool { return strings.Contains(err.Error(), words) }
}

// explain finds the reason for a failed trial.
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
