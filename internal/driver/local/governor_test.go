package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/testkit"
)

// load is a number of processors that an instance wants, and the part of them that it wants in the kernel.
type load struct{ cpus, kernel float64 }

// governing plans for instances with such loads, step by step. Each has a limit of one processor, and the machine two.
func governing(lasting time.Duration, loads map[driver.ID]load) map[driver.ID]*governed {
	known := map[driver.ID]*governed{}
	for id := range loads {
		known[id] = &governed{limit: 1, quota: 1, credit: credit(busyBurst), kernel: credit(kernelBurst)}
	}
	for range lasting / governEvery {
		step(known, loads)
	}
	return known
}

func step(known map[driver.ID]*governed, loads map[driver.ID]load) {
	rates := map[driver.ID]cpuRate{}
	for id, l := range loads {
		used := min(l.cpus, known[id].quota)
		rates[id] = cpuRate{used: used, system: used * l.kernel, over: governEvery}
	}
	for id, next := range plan(known, rates, 2*kernelShare, len(loads) > 1) {
		known[id].quota, known[id].idle = next.quota, next.idle
	}
}

func TestGovernorBoundsTimeInTheKernel(t *testing.T) {
	testkit.Proves(t, "E3")
	light := load{0.1, 0.5}
	for _, c := range []struct {
		name  string
		loads map[driver.ID]load
		least float64 // and most: the quota that "a" ends up with
		most  float64
		idle  bool
	}{
		{"a fork bomb", map[driver.ID]load{"a": {1, 1}, "b": light}, 0.2, 0.35, true},
		{"two fork bombs", map[driver.ID]load{"a": {1, 1}, "b": {1, 1}, "c": light}, 0.1, 0.2, false},
		{"twenty fork bombs", manyLoads(20), leastCPU, 0.15, false},
		{"a busy loop", map[driver.ID]load{"a": {1, 0}, "b": light}, 1, 1, true},
		{"a build", map[driver.ID]load{"a": {1, 0.3}, "b": light}, 1, 1, true},
		{"ordinary work", map[driver.ID]load{"a": {0.2, 0.9}, "b": {1, 1}}, 1, 1, false},
		{"a fork bomb alone", map[driver.ID]load{"a": {1, 1}}, 1, 1, false},
	} {
		a := governing(30*time.Second, c.loads)["a"]
		if a.quota < c.least || a.quota > c.most || a.idle != c.idle {
			t.Errorf("%s: a quota of %.2f, idle %v; want %.2f to %.2f, %v", c.name, a.quota, a.idle, c.least, c.most, c.idle)
		}
	}
}

func manyLoads(n int) map[driver.ID]load {
	all := map[driver.ID]load{"a": {1, 1}}
	for i := range n {
		all[driver.ID(rune('b'+i))] = load{1, 1}
	}
	return all
}

// What the governor plans is written into the cgroups, of either version, and taken back.
func TestKernelHogsAreSlowedDown(t *testing.T) {
	testkit.Proves(t, "E3")
	for _, controllers := range [][]string{{"cpu", "cpuacct"}, {"cpu"}, {unified}} {
		d := assemble(&Driver{opts: Options{}.withDefaults()})
		hog, other := standIn(t, controllers), standIn(t, controllers)
		all := map[driver.ID]*running{"hog-1": hog.running, "other-1": other.running}
		known := map[driver.ID]*governed{}
		for id := range all {
			known[id] = &governed{limit: 2, quota: 2, credit: credit(busyBurst), kernel: credit(kernelBurst)}
		}
		hog.uses(time.Second, time.Second)
		other.uses(time.Second, time.Second)
		d.governor.governOnce(known, all)
		hog.uses(time.Hour, time.Hour) // in no time
		d.governor.governOnce(known, all)
		if quota, idle := hog.bounds(); quota >= 2 || quota <= 0 || idle != "1" {
			t.Errorf("%v: the hog has a quota of %.2f, idle %q", controllers, quota, idle)
		}
		if quota, idle := other.bounds(); quota != 0 || idle != "0" {
			t.Errorf("%v: the other was given a quota of %.2f, idle %q", controllers, quota, idle)
		}
		for range 200 {
			known["hog-1"].at = known["hog-1"].at.Add(-time.Second)
			d.governor.governOnce(known, all)
		}
		if quota, idle := hog.bounds(); quota != 2 || idle != "0" {
			t.Errorf("%v: afterwards the hog has a quota of %.2f, idle %q", controllers, quota, idle)
		}
	}
}

// cgroupStandIn is a running instance whose cgroups are plain directories. Its quota is empty until one is written.
type cgroupStandIn struct {
	*testing.T
	*running
	group
}

func standIn(t *testing.T, controllers []string) cgroupStandIn {
	s := cgroupStandIn{t, &running{}, group{}}
	for _, name := range controllers {
		s.group[name] = t.TempDir()
	}
	s.running.group.Store(&s.group)
	s.write(s.quotaDir(), "cpu.idle", "0")
	if dir := s.group[unified]; dir != "" {
		s.write(dir, "cpu.max", "")
	} else {
		s.write(s.group["cpu"], "cpu.cfs_period_us", "")
		s.write(s.group["cpu"], "cpu.cfs_quota_us", "")
	}
	return s
}

func (s cgroupStandIn) write(dir, name, value string) {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
		s.Fatal(err)
	}
}

// uses sets the CPU time that the instance has used.
func (s cgroupStandIn) uses(total, system time.Duration) {
	if dir := s.group[unified]; dir != "" {
		s.write(dir, "cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 7\nsystem_usec %d\nnr_periods 0\n", total.Microseconds(), system.Microseconds()))
		return
	}
	s.write(s.accountingDir(), "cpuacct.usage", fmt.Sprintln(total.Nanoseconds()))
	s.write(s.accountingDir(), "cpuacct.usage_sys", fmt.Sprintln(system.Nanoseconds()))
}

func (s cgroupStandIn) bounds() (quota float64, idle string) {
	return s.cpuQuota(), strings.TrimSpace(readShort(s.quotaDir(), "cpu.idle"))
}

// A short piece of heavy work is not slowed down, and an instance that was has all of its limit again soon after.
func TestGovernorAllowsBurstsAndForgives(t *testing.T) {
	testkit.Proves(t, "E3")
	loads := map[driver.ID]load{"a": {1, 1}, "b": {}}
	known := governing(time.Second/2, loads)
	if a := known["a"]; a.quota != 1 {
		t.Errorf("after half a second: a quota of %.2f", a.quota)
	}
	for range 40 {
		step(known, loads)
	}
	loads["a"] = load{}
	for range 4 * int(5*time.Second/governEvery) {
		step(known, loads)
	}
	if a := known["a"]; a.quota != 1 || a.idle {
		t.Errorf("afterwards: a quota of %.2f, idle %v", a.quota, a.idle)
	}
}
