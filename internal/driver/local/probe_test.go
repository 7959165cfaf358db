package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/fault"
)

func TestProbeAsRoot(t *testing.T) {
	dir := t.TempDir()
	report, err := local.Probe(t.Context(), local.Options{Dir: dir, Exe: helper})
	if err != nil || report.Tier != local.TierRoot || report.Problem != "" {
		t.Errorf("%+v, %v", report, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the probe left %v, %v", entries, err)
	}
	d, err := local.New(t.Context(), local.Options{Dir: dir, Exe: helper})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Tier() != local.TierRoot {
		t.Errorf("the tier is %q", d.Tier())
	}
}

func TestProbeAsUser(t *testing.T) {
	if !inUser() {
		asUser(t, 100000, "TestProbeAsUser")
		return
	}
	report, err := local.Probe(t.Context(), local.Options{Dir: t.TempDir(), Exe: helper})
	if err != nil || report.Tier != local.TierUser {
		t.Fatalf("%+v, %v", report, err)
	}
	if notes := strings.Join(report.Notes, "\n"); !strings.Contains(notes, "MEMORY IS NOT LIMITED") || !strings.Contains(notes, "root") {
		t.Errorf("the notes are %q", notes)
	}
	s := spec()
	s.Limits = driver.Limits{DiskBytes: 1 << 30, DiskHard: true}
	d := open(t, t.TempDir(), func(o *local.Options) { o.Tier = local.TierUser })
	if _, err := d.Create(t.Context(), s); driver.Classify(err) != "invalid" {
		t.Errorf("a hard disk without root: %v", err)
	}
}

// Where no more user namespaces are allowed, there is no tier, and the report says why and what to do.
func TestProbeRefuses(t *testing.T) {
	if !inUser() {
		asUser(t, 65534, "TestProbeRefuses", func(cmd *exec.Cmd) {
			own := []syscall.SysProcIDMap{{ContainerID: 1000, HostID: 65534, Size: 1}}
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags: unix.CLONE_NEWUSER, UidMappings: own, GidMappings: own, AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
				Credential: &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: true},
			}
		})
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	opts := local.Options{Dir: filepath.Join(os.Getenv(asUserEnv), "local"), Exe: helper}
	if os.Geteuid() != 1000 {
		t.Fatalf("this is uid %d", os.Geteuid())
	}
	report, err := local.Probe(t.Context(), opts)
	if err != nil || report.Tier != local.TierNone || !strings.Contains(report.Remedy, "user.max_user_namespaces") {
		t.Errorf("%+v, %v", report, err)
	}
	_, err = local.New(t.Context(), opts)
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.Code != api.CodeUnsupported || refusal.Hint != report.Remedy {
		t.Errorf("New: %v", err)
	}
}

func TestExplanations(t *testing.T) {
	clone := func(errno unix.Errno) error { return fmt.Errorf("create instance: clone the helper: %w", errno) }
	none := func(*local.Facts) {}
	for name, tt := range map[string]struct {
		err    error
		facts  func(*local.Facts)
		remedy string
	}{
		"used up":           {clone(unix.ENOSPC), none, "user.max_user_namespaces"},
		"distribution":      {clone(unix.EPERM), func(f *local.Facts) { f.SwitchOff() }, "kernel.unprivileged_userns_clone"},
		"apparmor":          {clone(unix.EACCES), func(f *local.Facts) { f.AppArmor() }, "apparmor_restrict_unprivileged_userns"},
		"apparmor, mounts":  {errors.New("set up the instance: mount the root: operation not permitted"), func(f *local.Facts) { f.AppArmor() }, "apparmor"},
		"container":         {clone(unix.EPERM), func(f *local.Facts) { f.Container() }, "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined"},
		"policy":            {clone(unix.EPERM), none, "policy"},
		"kernel":            {clone(unix.EINVAL), none, "CONFIG_USER_NS"},
		"cgroups":           {errors.New("find cgroups: the controller pids is not mounted"), none, "cgroup"},
		"idmap":             {fmt.Errorf("map the owners of fs: %w", unix.EINVAL), none, "ext4"},
		"overlay module":    {errors.New("set up the instance: mount the root: open file system overlay: no such device"), func(f *local.Facts) { f.NoOverlay() }, "modprobe overlay"},
		"overlay":           {errors.New("set up the instance: mount the root: create overlay: invalid argument"), none, "network share"},
		"proc":              {errors.New("set up the instance: mount /proc: proc: operation not permitted"), none, "systempaths=unconfined"},
		"filter":            {errors.New("set up the instance: filter system calls: invalid argument"), none, "CONFIG_SECCOMP_FILTER"},
		"cgo":               {errors.New("set up the instance: enter a cgroup namespace: operation not supported"), none, "CGO_ENABLED=0"},
		"not executable":    {errors.New("the helper ended before it was ready (x): EOF"), none, "executed by everybody"},
		"something unheard": {errors.New("odd"), none, "5.19"},
	} {
		t.Run(name, func(t *testing.T) {
			report := local.Explain(tt.err, local.Fact(tt.facts))
			if report.Tier != local.TierNone || !strings.Contains(report.Remedy, tt.remedy) || !strings.Contains(report.Problem, tt.err.Error()) {
				t.Errorf("%+v", report)
			}
		})
	}
}

func TestFactsAreRead(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/sys/kernel/unprivileged_userns_clone": "0\n", "proc/sys/user/max_user_namespaces": "0\n",
		"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n", "proc/filesystems": "nodev\ttmpfs\n", ".dockerenv": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := local.Fact(func(f *local.Facts) {
		f.SwitchOff()
		f.AppArmor()
		f.Container()
		f.NoOverlay()
		f.NoUserns()
		f.Root()
	})
	if got := local.ReadFacts(root); got != want {
		t.Errorf("%+v", got)
	}
	if got := local.ReadFacts(t.TempDir()); got != local.Fact(func(f *local.Facts) { f.Root() }) {
		t.Errorf("%+v", got)
	}
}
