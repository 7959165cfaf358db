package boot

import (
	"os"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// rounds is how often the processes are looked through for those that were forked meanwhile.
const rounds = 8

// killMembers kills the processes of a session.
func killMembers(session int) {
	killWhere(func(all []procStat) (members []procStat) {
		for _, p := range all {
			if p.session == session {
				members = append(members, p)
			}
		}
		return members
	})
}

// killWhere kills processes until there are no more of the kind.
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

// killAll kills every process of the instance but the helper. Where the helper is not the first process of
// its own world, as in tests, everything is not everything there is: then it kills its descendants.
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

// descendants are the processes below this one.
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

// procStat is what /proc says of a process.
type procStat struct {
	pid, parent, session int
	state                byte
}

// allProcesses lists the processes.
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

// parseStat reads a line of /proc/pid/stat. The name in it is the process's own choice, so the fields are
// counted from the last parenthesis.
func parseStat(pid int, line string) (p procStat, ok bool) {
	for rest, found := line, true; found; {
		line = rest
		_, rest, found = cut(rest, ')')
	}
	var fields [5]string // nothing, state, parent, group, session
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
