package doctor

import (
	"context"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func version(_ context.Context, s Subject) finding { return fine("%s", s.Build) }

func kernel(context.Context, Subject) finding {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return warn("report this with the name of your system", "the kernel does not say what it is: %v", err)
	}
	return fine("%s %s, %s", text(u.Sysname[:]), text(u.Release[:]), osName("/etc/os-release"))
}

func text(field []byte) string { return unix.ByteSliceToString(field) }

// osName returns the name of the distribution from an os-release file.
func osName(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "distribution unknown"
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"`)
		}
	}
	return "distribution unknown"
}

// A clock outside of these years was never set.
var (
	tooEarly = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tooLate  = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

func clock(context.Context, Subject) finding { return clockAt(time.Now()) }

func clockAt(now time.Time) finding {
	if now.Before(tooEarly) || now.After(tooLate) {
		return fail("set the clock, and let a time service such as systemd-timesyncd keep it",
			"the clock says %s", now.UTC().Format(time.RFC3339))
	}
	return fine("%s", now.UTC().Format(time.RFC3339))
}

// namespaces reports the kernel's limits for user namespaces.
func namespaces(context.Context, Subject) finding {
	return fine("at most %s user namespaces, for ordinary users %s; this is uid %d",
		setting("/proc/sys/user/max_user_namespaces"),
		onOff(setting("/proc/sys/kernel/unprivileged_userns_clone")), os.Geteuid())
}

// onOff returns the state of a kernel switch. A missing switch counts as on.
func onOff(value string) string {
	if value == "0" {
		return "off"
	}
	return "on"
}

func cgroups(context.Context, Subject) finding { return cgroupsAt("/sys/fs/cgroup") }

func cgroupsAt(root string) finding {
	controllers := setting(root + "/cgroup.controllers")
	if controllers == unknown {
		return fine("version 2 is not mounted at %s", root)
	}
	return fine("version 2 with %s", controllers)
}

const unknown = "unknown"

// setting reads a one-line kernel file.
func setting(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	return strings.TrimSpace(string(data))
}

func configuration(_ context.Context, s Subject) finding {
	switch {
	case s.ConfigErr != nil:
		return fail("change the named settings; 'berth config' shows the rest", "%v", s.ConfigErr)
	case len(s.Config.Warnings) > 0:
		return warn("change or remove the named settings", "%s", strings.Join(s.Config.Warnings, "; "))
	case s.Config.File != "":
		return fine("read from %s and the environment", s.Config.File)
	}
	return fine("read from the environment; no file")
}
