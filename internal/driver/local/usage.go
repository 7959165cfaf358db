package local

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// Usage reads the counters of the instance's cgroups. Without cgroups it returns the number of processes, their CPU time
// and whether the instance is frozen.
func (d *Driver) Usage(ctx context.Context, id driver.ID) (driver.Usage, error) {
	if err := ctx.Err(); err != nil {
		return driver.Usage{}, err
	}
	p, err := d.dirs.find(id)
	if err != nil {
		return driver.Usage{}, err
	}
	defer p.Close()
	alive, err := d.processes.live(p)
	if err != nil {
		return driver.Usage{}, err
	}
	if alive == nil {
		return driver.Usage{}, driver.ErrNotRunning
	}
	g, err := p.groupOf(alive)
	if err != nil {
		return driver.Usage{}, err
	}
	u, err := g.usage(alive)
	u.Frozen = d.runs.frozen(p, alive)
	return u, err
}

func (g group) usage(alive *running) (u driver.Usage, err error) {
	if dir := g[unified]; dir != "" {
		u.MemoryBytes = number(dir, "memory.current") - counter(dir, "memory.stat", "inactive_file")
		u.MemoryLimit = number(dir, "memory.max")
		u.OOMKills = counter(dir, "memory.events", "oom_kill")
		u.CPU = time.Duration(counter(dir, "cpu.stat", "usage_usec")) * time.Microsecond
	} else if dir := g["memory"]; dir != "" {
		u.MemoryBytes = number(dir, "memory.usage_in_bytes") - counter(dir, "memory.stat", "total_inactive_file")
		u.MemoryLimit = number(dir, "memory.limit_in_bytes")
		u.OOMKills = counter(dir, "memory.oom_control", "oom_kill")
	}
	if u.MemoryLimit >= math.MaxInt64&^0xffff { // version 1 reports no limit this way
		u.MemoryLimit = 0
	}
	pids, err := g.processes(alive)
	u.Processes = int64(len(pids))
	if g[unified] == "" {
		for _, pid := range pids {
			u.CPU += processTime(pid)
		}
	}
	return u, err
}

// number reads a file that contains one number. It returns 0 for any other content.
func number(dir, name string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(readShort(dir, name)), 10, 64)
	return n
}

// counter returns the number for a name in a file with lines of names and numbers, or 0 if the name is missing.
func counter(dir, file, name string) int64 {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

// ticks is the number of clock ticks per second in /proc. The kernel always uses this value for user space.
const ticks = 100

// processTime returns the CPU time of a process and of the children that it has waited for.
func processTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text)[strings.LastIndex(string(text), ")")+1:]) // the name before may contain any character
	var sum int64
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			sum += n
		}
	}
	return time.Duration(sum) * time.Second / ticks
}
