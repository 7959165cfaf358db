package pid1

import (
	"os"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// rounds bounds the passes over all processes. More than one is needed because processes may fork during a pass.
const rounds = 8

// killAllInSession kills the processes of a session.
func killAllInSession(session int) {
	killWhere(func(all []procStat) (members []procStat) {
		for _, p := range all {
			if p.session == session {
				members = append(members, p)
			}
		}
		return members
	})
}

// killWhere kills the processes that choose returns, until it returns no more.
func killWhere(choose func(all []procStat) []procStat) {
	for range rounds {
		found := false
		for _, p := range choose(allProcesses()) {
			if p.state != 'Z' && p.pid != os.Getpid() {
				_ = unix.Kill(p.pid, unix.SIGKILL)
				found = true
			}
		}
		if !found {
			return
		}
	}
}

// killAll kills every process of the instance but the helper. A helper that is not pid 1, as in tests, kills only its
// descendants.
func (s *server) killAll() wire.Reply {
	if os.Getpid() == 1 {
		if err := unix.Kill(-1, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return failure("kill", err)
		}
		return wire.Reply{}
	}
	killWhere(descendants)
	return wire.Reply{}
}

// descendants returns the processes that descend from this one.
func descendants(all []procStat) (below []procStat) {
	ours := map[int]bool{os.Getpid(): true}
	for more := true; more; {
		more = false
		for _, p := range all {
			if ours[p.parent] && !ours[p.pid] {
				ours[p.pid], more = true, true
				below = append(below, p)
			}
		}
	}
	return below
}

// procStat holds fields of a process's stat file in /proc.
type procStat struct {
	pid, parent, session int
	state                byte
}

// allProcesses lists the processes in /proc.
func allProcesses() []procStat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []procStat
	for _, name := range names {
		if pid, ok := number(name); ok {
			if p, ok := readStat(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

func readStat(pid int) (p procStat, ok bool) {
	fd, err := unix.Open("/proc/"+digits(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return p, false
	}
	defer unix.Close(fd)
	var buf [512]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return p, false
	}
	return parseStat(pid, string(buf[:n]))
}

// parseStat parses the content of /proc/pid/stat. A process can choose its name, which may contain spaces and
// parentheses. So the fields are counted from the last closing parenthesis.
func parseStat(pid int, line string) (p procStat, ok bool) {
	for rest, found := line, true; found; {
		line = rest
		_, rest, found = cut(rest, ')')
	}
	var fields [5]string // empty, state, parent, process group, session
	for i := range fields {
		fields[i], line, _ = cut(line, ' ')
	}
	parent, ok1 := number(fields[2])
	session, ok2 := number(fields[4])
	if !ok1 || !ok2 || len(fields[1]) != 1 {
		return p, false
	}
	return procStat{pid: pid, parent: parent, session: session, state: fields[1][0]}, true
}
