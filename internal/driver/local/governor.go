package local

import (
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// The governor prevents instances that use much CPU time from slowing down the others. It measures the CPU time of each
// instance. While more than one instance runs, it does two things.
//
// The governor marks an instance that stays busy as idle (the file cpu.idle of cgroups). Such an instance runs only in
// the time that the others do not need. When a process of another instance wakes up, it runs at once.
//
// The governor lowers the CPU quota of an instance that stays busy and spends much of its time in the kernel. Code in
// the kernel holds locks, handles interrupts and is not preempted by a process that wakes up, so a lower priority does
// not help the other instances. Example: a fork bomb on half of the processors makes the commands of others four times
// slower; as many busy loops do not. Builds and tests keep their quota, because they spend less time in the kernel.
const (
	governEvery = 250 * time.Millisecond

	// busyShare is the number of processors that an instance may use all the time without being marked idle. busyBurst
	// is the CPU time that it may use in addition.
	busyShare = 0.25
	busyBurst = time.Second / 2

	// kernelShare is the part of the machine's processors that all instances with a lowered quota together may use in
	// the kernel all the time. kernelBurst is the CPU time in the kernel that one instance may use in addition. The quota of an
	// instance is lowered only if more than kernelPart of its CPU time is in the kernel.
	kernelShare = 0.125
	kernelBurst = time.Second / 2
	kernelPart  = 0.4

	// leastCPU is the lowest quota, in processors. A lowered quota is multiplied by quotaGrowth in each step.
	leastCPU    = 0.1
	quotaGrowth = 1.25
)

// governed is the governor's data about an instance.
type governed struct {
	limit float64 // the quota that it was created with, in processors
	quota float64 // its present quota, in processors
	idle  bool    // it is marked idle

	credit credit // for all its CPU time
	kernel credit // for its CPU time in the kernel

	used, system time.Duration // its CPU time at the last measurement: in total, and in the kernel
	at           time.Time     // time of the last measurement
}

// credit is the CPU time that an instance may use in addition to its share. It is negative if the instance used more.
type credit time.Duration

// use adds the share and subtracts the used CPU time for a period of length over. It limits the credit to burst. It
// limits a negative credit to a quarter of burst, so that the instance recovers soon.
func (c *credit) use(rate, share float64, over, burst time.Duration) {
	*c += credit((share - rate) * float64(over))
	*c = min(max(*c, credit(-burst/4)), credit(burst))
}

// governor divides the processors between busy instances and watches memory that no cgroup counts.
type governor struct{ d *Driver }

// govern measures all instances and adjusts their cgroups regularly, until Close.
func (gov governor) govern() {
	known := map[driver.ID]*governed{}
	gov.watchRunning(governEvery, 5*time.Millisecond, func(all map[driver.ID]*running) { // an instance takes about 0.02 ms
		maps.DeleteFunc(known, func(id driver.ID, _ *governed) bool { return all[id] == nil })
		gov.governOnce(known, all)
	})
}

// watchRunning calls look with the running instances, until Close. The pause between two calls is each times the number
// of instances, but at least least.
func (gov governor) watchRunning(least, each time.Duration, look func(all map[driver.ID]*running)) {
	for pause := least; ; {
		select {
		case <-gov.d.ctx.Done():
			return
		case <-time.After(pause):
		}
		gov.d.mu.Lock()
		all := maps.Clone(gov.d.running)
		gov.d.mu.Unlock()
		pause = max(least, time.Duration(len(all))*each)
		look(all)
	}
}

// governOnce measures all instances and adjusts their cgroups once. It skips instances that it cannot measure, because
// they may be ending.
func (gov governor) governOnce(known map[driver.ID]*governed, all map[driver.ID]*running) {
	rates := map[driver.ID]cpuRate{}
	for id, r := range all {
		g := r.group.Load()
		if g == nil {
			continue
		}
		if known[id] == nil {
			limit, err := gov.cpuLimit(id)
			if err != nil {
				continue
			}
			known[id] = &governed{limit: limit, quota: g.cpuQuota(), idle: g.isIdle(), credit: credit(busyBurst), kernel: credit(kernelBurst)}
		}
		if rate, ok := known[id].measure(g, time.Now()); ok {
			rates[id] = rate
		}
	}
	planned := plan(known, rates, float64(runtime.NumCPU())*kernelShare, len(all) > 1)
	for id, next := range planned {
		gov.adjust(id, known[id], *all[id].group.Load(), next)
	}
}

// adjust writes changed bounds to an instance's cgroups.
func (gov governor) adjust(id driver.ID, i *governed, g group, next bounds) {
	if next.idle != i.idle && g.setIdle(next.idle) == nil {
		i.idle = next.idle
	}
	if next.quota == i.quota || g.setCPUQuota(next.quota) != nil {
		return
	}
	if i.quota == i.limit {
		gov.d.opts.Log.Info("lower the CPU quota of an instance that keeps the kernel busy", "instance", id, "cpus", next.quota, "limit", i.limit)
	}
	i.quota = next.quota
}

// cpuLimit returns the CPU quota that an instance was created with, in processors.
func (gov governor) cpuLimit(id driver.ID) (float64, error) {
	p, err := gov.d.dirs.find(id)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	r, err := p.record()
	return r.Limits.CPU, err
}

// cpuRate is the average number of processors that an instance used between two measurements.
type cpuRate struct {
	used, system float64       // in total, and in the kernel
	over         time.Duration // time between the measurements
}

// measure returns the rate since the last call. It returns false in the first call, or if the CPU time is not known.
func (i *governed) measure(g *group, now time.Time) (cpuRate, bool) {
	used, system, ok := g.cpuTimes()
	if !ok {
		return cpuRate{}, false
	}
	over := now.Sub(i.at)
	first := i.at.IsZero()
	rate := cpuRate{float64(used-i.used) / float64(over), float64(system-i.system) / float64(over), over}
	i.used, i.system, i.at = used, system, now
	return rate, !first && over > 0
}

// bounds are the governor's settings for an instance.
type bounds struct {
	quota float64 // in processors
	idle  bool
}

// plan returns the next bounds of each instance. Instances without credit for the kernel, or with a lowered quota, are
// restrained: each may use an equal part of share, the processors for use in the kernel. plan estimates the
// quota at which an instance stays within its part. Unless crowded, which means that more than one instance runs, no
// quota is lowered and no instance is marked idle.
func plan(known map[driver.ID]*governed, rates map[driver.ID]cpuRate, share float64, crowded bool) map[driver.ID]bounds {
	restrained := map[driver.ID]bool{}
	for id := range rates {
		if i := known[id]; i.kernel <= 0 || i.quota < i.limit {
			restrained[id] = true
		}
	}
	each := share / float64(max(len(restrained), 1))
	next := map[driver.ID]bounds{}
	for id, rate := range rates {
		i := known[id]
		i.credit.use(rate.used, busyShare, rate.over, busyBurst)
		i.kernel.use(rate.system, map[bool]float64{true: each, false: share}[restrained[id]], rate.over, kernelBurst)
		b := bounds{quota: min(i.quota*quotaGrowth, i.limit), idle: crowded && i.credit < credit(busyBurst/4) && (i.idle || i.credit <= 0)}
		if crowded && i.kernel <= 0 && rate.system > max(each, kernelPart*rate.used) {
			b.quota = min(max(rate.used*each/rate.system, leastCPU), i.quota)
		}
		next[id] = b
	}
	return next
}

// cpuTimes returns the CPU time that the processes in the cgroups have used, and the part of it in the kernel.
func (g group) cpuTimes() (used, system time.Duration, ok bool) {
	if dir := g[unified]; dir != "" {
		text := readShort(dir, "cpu.stat")
		used, found := statMicroseconds(text, "usage_usec")
		system, also := statMicroseconds(text, "system_usec")
		return used, system, found && also
	}
	dir := g.accountingDir()
	total, err := strconv.ParseInt(strings.TrimSpace(readShort(dir, "cpuacct.usage")), 10, 64)
	inKernel, failed := strconv.ParseInt(strings.TrimSpace(readShort(dir, "cpuacct.usage_sys")), 10, 64)
	return time.Duration(total), time.Duration(inKernel), err == nil && failed == nil
}

// accountingDir returns the cgroup of version 1 that counts CPU time. Its controller, cpuacct, is mounted together with cpu
// or alone.
func (g group) accountingDir() string {
	if dir := g["cpuacct"]; dir != "" {
		return dir
	}
	return g["cpu"]
}

func statMicroseconds(text, name string) (time.Duration, bool) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Duration(n) * time.Microsecond, err == nil
		}
	}
	return 0, false
}

// cpuQuota returns the present quota of the cgroups, in processors; zero: none.
func (g group) cpuQuota() float64 {
	text := readShort(g["cpu"], "cpu.cfs_quota_us")
	if dir := g[unified]; dir != "" {
		text, _, _ = strings.Cut(readShort(dir, "cpu.max"), " ")
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || n < 0 {
		return 0
	}
	return n / cpuPeriod
}

// setCPUQuota sets the quota, in processors.
func (g group) setCPUQuota(cpus float64) error {
	for _, s := range cpuSettings(g[unified] != "", cpus) {
		if err := writeFile(g.quotaDir(), s.file, s.value); err != nil {
			return fmt.Errorf("set CPU quota: %w", err)
		}
	}
	return nil
}

// isIdle reports whether the cgroups are marked idle.
func (g group) isIdle() bool { return strings.TrimSpace(readShort(g.quotaDir(), "cpu.idle")) == "1" }

// setIdle sets or removes the mark idle. Processes with the mark run when no process of other instances needs the CPU.
func (g group) setIdle(idle bool) error {
	return writeFile(g.quotaDir(), "cpu.idle", map[bool]string{true: "1", false: "0"}[idle])
}

// quotaDir returns the cgroup with the CPU settings.
func (g group) quotaDir() string {
	if dir := g[unified]; dir != "" {
		return dir
	}
	return g["cpu"]
}
