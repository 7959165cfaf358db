package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/testkit"
)

// tree makes a machine's cgroups out of plain files: the lines of mountinfo and cgroup, with %s for the
// directory, and files with their text.
func tree(t *testing.T, mountinfo, self string, files map[string]string) (host, string) {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "%s", dir)), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, text := range files {
		put(name, text)
	}
	return host{put("proc/mountinfo", mountinfo), put("proc/cgroup", self), true}, dir
}

const split = `26 20 0:23 / %s/cpu rw - cgroup cgroup rw,cpu,cpuacct
27 20 0:24 / %s/memory rw - cgroup cgroup rw,memory
28 20 0:25 / %s/pids rw - cgroup cgroup rw,pids
29 20 0:26 /docker/abc %s/freezer\040dir rw - cgroup cgroup rw,freezer
30 20 0:27 / %s/unified rw - cgroup2 cgroup2 rw
31 20 0:28 / %s/other rw - tmpfs tmpfs rw
nonsense
`

func TestFindSplitCgroups(t *testing.T) {
	h, dir := tree(t, split, "4:cpu,cpuacct:/\n3:memory:/user/x\n2:pids:/gone\n1:freezer:/docker/abc/in\n0::/\nnonsense\n", map[string]string{
		"cpu/tasks": "", "memory/user/x/tasks": "", "pids/tasks": "", "freezer dir/in/tasks": "", "unified/cgroup.controllers": "hugetlb\n",
	})
	found, err := h.find()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, place := range found {
		got[name] = strings.TrimPrefix(place.dir, dir)
	}
	want := map[string]string{
		"cpu": "/cpu/berth", "memory": "/memory/user/x/berth", "pids": "/pids/berth", "freezer": "/freezer dir/in/berth",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	g := found.group("a-1")
	if again := found.group("a-1"); g["cpu"] == again["cpu"] || !strings.HasPrefix(g["cpu"], dir+"/cpu/berth/a-1.") {
		t.Errorf("groups are %v and %v", g, again)
	}
	found.removeParents()
	if _, err := os.Stat(filepath.Join(dir, "cpu/berth")); err == nil {
		t.Error("an empty parent is left behind")
	}
}

func TestFindUnifiedCgroups(t *testing.T) {
	const mounts = "30 20 0:27 / %s/cg rw - cgroup2 cgroup2 rw\n"
	all := "cpuset cpu io memory pids\n"
	for name, tt := range map[string]struct {
		self  string
		root  bool
		files map[string]string
		want  string // empty: nothing is found
	}{
		"delegated to this process's own": {"0::/user/x\n", false, map[string]string{
			"cg/user/x/cgroup.controllers": all, "cg/user/x/cgroup.subtree_control": all, "cg/cgroup.controllers": all, "cg/cgroup.subtree_control": all,
		}, "/cg/user/x/berth"},
		"root goes to the top": {"0::/user/x\n", true, map[string]string{
			"cg/user/x/cgroup.controllers": "pids\n", "cg/cgroup.controllers": all, "cg/cgroup.subtree_control": all,
		}, "/cg/berth"},
		"an ordinary user does not": {"0::/user/x\n", false, map[string]string{
			"cg/user/x/cgroup.controllers": "pids\n", "cg/cgroup.controllers": all, "cg/cgroup.subtree_control": all,
		}, ""},
		"controllers are handed down": {"0::/\n", true, map[string]string{
			"cg/cgroup.controllers": all, "cg/cgroup.subtree_control": "",
		}, "/cg/berth"},
		"a controller is missing": {"0::/\n", true, map[string]string{
			"cg/cgroup.controllers": "cpu memory\n", "cg/cgroup.subtree_control": "",
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := tree(t, mounts, tt.self, tt.files)
			h.root = tt.root
			found, err := h.find()
			if got := strings.TrimPrefix(found[unified].dir, dir); got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("found %q, %v", got, err)
			}
			if tt.want == "/cg/berth" {
				if data, _ := os.ReadFile(filepath.Join(dir, "cg/cgroup.subtree_control")); !strings.Contains(string(data), "cpu") {
					t.Errorf("handed down: %q", data)
				}
			}
		})
	}
}

func TestFindNoCgroups(t *testing.T) {
	for name, mounts := range map[string]string{
		"none":                 "",
		"one is missing":       strings.ReplaceAll(split, "cgroup cgroup rw,memory", "cgroup cgroup rw,blkio"),
		"not to be written to": strings.ReplaceAll(split, "%s/memory", "/proc"),
	} {
		h, _ := tree(t, mounts, "1:memory:/\n", map[string]string{"cpu/x": "", "memory/x": "", "pids/x": "", "freezer dir/x": ""})
		if found, err := h.find(); err == nil {
			t.Errorf("%s: found %v", name, found)
		}
	}
	h := host{"/no/such/file", "/proc/self/cgroup", true}
	if _, err := h.find(); err == nil {
		t.Error("cgroups without mounts")
	}
	h = host{"/proc/self/mountinfo", "/no/such/file", true}
	if _, err := h.find(); err == nil {
		t.Error("cgroups without a process")
	}
}

func TestSettings(t *testing.T) {
	l := driver.Limits{CPU: 1.5, MemoryBytes: 1 << 20, Processes: 10}
	for controller, want := range map[string]string{
		"cpu":     "cpu.cfs_period_us=100000 cpu.cfs_quota_us=150000",
		"memory":  "memory.limit_in_bytes=1048576 memory.memsw.limit_in_bytes=1048576? memory.kmem.tcp.limit_in_bytes=4194304?",
		"pids":    "pids.max=74",
		"freezer": "",
		unified:   "cpu.max=150000 100000 memory.max=1048576 memory.swap.max=0? pids.max=74",
	} {
		var got []string
		for _, s := range settings(controller, l) {
			text := s.file + "=" + s.value
			if s.optional {
				text += "?"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", controller, got, want)
		}
		if none := settings(controller, driver.Limits{}); len(none) > 0 {
			t.Errorf("%s without limits: %v", controller, none)
		}
	}
	if got := settings("cpu", driver.Limits{CPU: 0.0001}); got[1].value != "1000" {
		t.Errorf("the least quota is %v", got)
	}
}

// unifiedGroup makes a cgroup of version 2 in this machine's own hierarchy, which has no controllers here.
func unifiedGroup(t *testing.T) group {
	t.Helper()
	mounts, err := thisHost.mounts()
	if err != nil {
		t.Fatal(err)
	}
	m, ok := mounts[unified]
	if !ok {
		t.Fatal("this machine has no cgroups of version 2")
	}
	dir, err := os.MkdirTemp(m.mount, "berth-test-")
	if err != nil {
		t.Fatal(err)
	}
	g := group{unified: filepath.Join(dir, "a")}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := g.remove(ctx); err != nil {
			t.Error(err)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return g
}

// A process of version 2 is born in its cgroup, frozen and thawed there, and ended with it.
func TestUnifiedGroup(t *testing.T) {
	g := unifiedGroup(t)
	if err := g.make(driver.Limits{}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if err := (cgroups{}).start(g, cmd.SysProcAttr, cmd.Start); err != nil {
		t.Fatal(err)
	}
	pids, err := g.procs()
	if err != nil || len(pids) != 1 || pids[0] != cmd.Process.Pid {
		t.Errorf("in the cgroup are %v, %v", pids, err)
	}
	if members, err := g.members(); err != nil || len(members) != 0 {
		t.Errorf("a process of our own is taken for an instance's: %v, %v", members, err)
	}
	for _, frozen := range []bool{true, false, true} {
		if err := g.freeze(t.Context(), frozen); err != nil || g.frozen() != frozen {
			t.Errorf("freeze(%v): %v", frozen, err)
		}
	}
	if err := g.kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v", err)
	}
	testkit.Eventually(t, 30*time.Second, func() error { return g.rmdir() })
	if pids, err := g.procs(); err != nil || len(pids) > 0 {
		t.Errorf("in a cgroup that is gone are %v, %v", pids, err)
	}
	if err := g.remove(t.Context()); err != nil {
		t.Errorf("remove what is gone: %v", err)
	}
}

// A thread that starts a process in cgroups of version 1 is back where it was afterwards, and it is never
// the process's first.
func TestStartInCgroups(t *testing.T) {
	c, err := findCgroups(TierRoot)
	if err != nil {
		t.Fatal(err)
	}
	controller := "memory"
	if _, one := c[unified]; one {
		controller = unified
	}
	own, err := ownCgroups("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		g := c.group("start-1")
		if err := g.make(driver.Limits{Processes: 100}); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		if err := c.start(g, cmd.SysProcAttr, cmd.Start); err != nil {
			t.Fatal(err)
		}
		in, err := ownCgroups("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cgroup")
		if err != nil || !strings.HasSuffix(g[controller], in[controller]) || in[controller] == own[controller] {
			t.Errorf("started in %v, %v", in, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if err := g.remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tasks, err := filepath.Glob("/proc/self/task/*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if now, err := ownCgroups(task); err == nil && !cmp.Equal(now, own) {
			t.Errorf("a thread was left in %v", now)
		}
	}
	c.removeParents()
}

func TestStartInCgroupsThatAreMissing(t *testing.T) {
	g := group{"cpu": "/no/such/cgroup"}
	started := false
	err := cgroups{}.start(g, &syscall.SysProcAttr{}, func() error { started = true; return nil })
	if err == nil || started {
		t.Errorf("started %v, %v", started, err)
	}
	if err := (cgroups{}).start(group{unified: "/no/such/cgroup"}, &syscall.SysProcAttr{}, nil); err == nil {
		t.Error("started in a cgroup that is not there")
	}
}

// handEnv tells another process of this test binary which cgroup it was started in.
const handEnv = "BERTH_LOCAL_TEST_CGROUP"

// A process that is alone in its cgroup steps down, so that its children can be limited.
func TestStepDown(t *testing.T) {
	if dir := os.Getenv(handEnv); dir != "" {
		neededControllers = []string{"hugetlb"} // all that this machine's hierarchy has, so it stands for the others
		if err := delegate(dir, filepath.Join(dir, "berth")); err != nil {
			t.Fatal(err)
		}
		own, err := ownCgroups("/proc/self/cgroup")
		if err != nil || !strings.HasSuffix(own[unified], "/berth-server") {
			t.Errorf("this process is in %v, %v", own, err)
		}
		if err := has(filepath.Join(dir, "berth"), "cgroup.subtree_control", neededControllers...); err != nil {
			t.Error(err)
		}
		if err := delegate(dir, filepath.Join(dir, "berth")); err != nil {
			t.Errorf("a second time: %v", err)
		}
		return
	}
	mounts, err := thisHost.mounts()
	if err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(mounts[unified].mount, "cgroup.subtree_control")
	before, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(before), "hugetlb") {
		t.Cleanup(func() { _ = os.WriteFile(control, []byte("-hugetlb"), 0) })
	}
	top := filepath.Dir(unifiedGroup(t)[unified])
	if err := os.WriteFile(control, []byte("+hugetlb"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{"berth", "berth-server"} {
			testkit.Eventually(t, 30*time.Second, func() error { return ignoreMissing(os.Remove(filepath.Join(top, name))) })
		}
	})
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStepDown$", "-test.v")
	cmd.Env = append(os.Environ(), handEnv+"="+top, "BERTH_LOCAL_TEST_HELPER=none")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	f, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(f.Fd())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Nobody else's processes are moved.
func TestStepDownAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("1\n2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := moveToLeaf(dir); err == nil {
		t.Error("others were moved")
	}
}

// All instances together weigh as much as the processors they may use, not as much as one process beside them.
func TestInstancesWeighAsMuchAsProcessors(t *testing.T) {
	c, err := findCgroups(TierRoot)
	if err != nil {
		t.Fatal(err)
	}
	defer c.removeParents()
	place, split := c["cpu"]
	if !split {
		return // version 2 weighs the server instead
	}
	want := strconv.Itoa(1024 * runtime.NumCPU())
	if got := strings.TrimSpace(readShort(place.dir, "cpu.shares")); got != want {
		t.Errorf("instances weigh %s, want %s", got, want)
	}
}
