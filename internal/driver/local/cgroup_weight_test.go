package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/driver"
)

// Parents that are there already give way, too, and one that has nothing to set is as good.
func TestFoundParentGivesWay(t *testing.T) {
	const both = "cpuset cpu io memory pids\n"
	for name, tt := range map[string]struct {
		mounts, self string
		files        map[string]string
		weight       string // the file
		want         string
	}{
		"version 1": {split, "4:cpu:/\n3:memory:/\n2:pids:/\n1:freezer:/docker/abc\n", map[string]string{
			"cpu/berth/cpu.shares": "", "memory/tasks": "", "pids/tasks": "", "freezer dir/tasks": "",
		}, "cpu/berth/cpu.shares", parentShares},
		"version 1 without shares": {split, "4:cpu:/\n3:memory:/\n2:pids:/\n1:freezer:/docker/abc\n", map[string]string{
			"cpu/tasks": "", "memory/tasks": "", "pids/tasks": "", "freezer dir/tasks": "",
		}, "cpu/berth/cpu.shares", ""},
		"version 2": {"30 20 0:27 / %s/cg rw - cgroup2 cgroup2 rw\n", "0::/\n", map[string]string{
			"cg/cgroup.controllers": both, "cg/cgroup.subtree_control": both, "cg/berth/cpu.weight": "", "cg/berth/cgroup.subtree_control": both,
		}, "cg/berth/cpu.weight", parentWeight},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := tree(t, tt.mounts, tt.self, tt.files)
			if _, err := h.find(); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(filepath.Join(dir, tt.weight)); string(got) != tt.want {
				t.Errorf("it weighs %q", got)
			}
		})
	}
}

// On this machine, what the driver finds and what it makes again weigh less than the server; instances weigh
// the same as ever beside each other.
func TestParentGivesWay(t *testing.T) {
	c, err := findCgroups(TierRoot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.leave)
	controller, file, parent, child := "cpu", "cpu.shares", parentShares, "1024"
	if _, one := c[unified]; one {
		controller, file, parent, child = unified, "cpu.weight", parentWeight, "100"
	}
	weighs := func(dir, want string) {
		t.Helper()
		if got := strings.TrimSpace(glance(dir, file)); got != want {
			t.Errorf("%s of %s is %q, want %s", file, dir, got, want)
		}
	}
	keep := func(g group) {
		t.Helper()
		if err := g.make(driver.Limits{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.remove(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	found := c.group("weight-1") // while it is there nobody removes its parent
	keep(found)
	weighs(c[controller].dir, parent)
	weighs(found[controller], child)

	again, err := os.MkdirTemp(filepath.Dir(c[controller].dir), "berth-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(again); err != nil { // as another driver does that found it empty
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(again) })
	keep(group{controller: filepath.Join(again, "a")})
	weighs(again, parent)
}
