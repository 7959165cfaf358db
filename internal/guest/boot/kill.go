package boot

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

// rounds is how often the processes are looked through for those that were forked meanwhile.
const rounds = 8

// killMembers kills the processes of a session.
func killMembers(session int) {
	killWhere(func(p procStat) bool { return p.session == session })
}

// killWhere kills processes until there are no more of the kind.
func killWhere(chosen func(procStat) bool) {
	for range rounds {
		found := false
		for _, p := range allProcesses() {
			if p.state != 'Z' && p.pid != os.Getpid() && chosen(p) {
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
	killWhere(descendants())
	return wire.Reply{}
}

// descendants tells the processes below this one from others, also when their parents died meanwhile.
func descendants() func(procStat) bool {
	ours := map[int]bool{os.Getpid(): true}
	return func(p procStat) bool {
		if ours[p.parent] {
			ours[p.pid] = true
		}
		return ours[p.pid]
	}
}

// procStat is what /proc says of a process.
type procStat struct {
	pid, parent, session int
	state                byte
}

// allProcesses lists the processes, parents before their children where numbers did not wrap around.
func allProcesses() []procStat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []procStat
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readStat(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

func readStat(pid int) (p procStat, ok bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
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
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 4 {
		return p, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	return procStat{pid: pid, parent: parent, session: session, state: fields[0][0]}, err1 == nil && err2 == nil
}
