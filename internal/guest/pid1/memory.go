package pid1

import (
	"runtime"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/berthdev/berth/internal/guest/unix"
)

// Environ returns the environment that the helper should be started with. It saves memory and time: otherwise the
// runtime allocates data for every processor before frugal can set the number to one, and opens the cgroup that
// limits them.
func Environ() []string { return []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0"} }

// freeOSMemory is debug.FreeOSMemory. Package runtime/debug is not imported because it imports fmt, and then most
// packages of the program would be initialised before this one.
//
//go:linkname freeOSMemory runtime/debug.freeOSMemory
func freeOSMemory()

// frugal configures the runtime to use little memory, at the cost of speed.
func frugal() {
	if runtime.GOMAXPROCS(0) != 1 {
		runtime.GOMAXPROCS(1)
	}
	runtime.MemProfileRate = 0
}

// idler returns memory to the system when there was no request for a while.
type idler struct {
	timer *time.Timer
	busy  atomic.Int64 // requests in progress
	// served is the number of requests since the last garbage collection. The first collection permanently
	// enlarges the runtime, so a few requests do not cause one.
	served atomic.Int64
}

const (
	idleAfter  = time.Second
	collectMin = 64 // requests
)

func newIdler() *idler {
	i := new(idler)
	i.timer = time.AfterFunc(idleAfter, i.rest)
	return i
}

// begin is called at the start of a request.
func (i *idler) begin() { i.busy.Add(1) }

// end is called at the end of a request.
func (i *idler) end() {
	i.served.Add(1)
	if i.busy.Add(-1) == 0 {
		i.timer.Reset(idleAfter)
	}
}

// rest returns unused heap memory to the system and unmaps the pages of the program. The next access reads them from
// the page cache again.
func (i *idler) rest() {
	if i.served.Swap(0) >= collectMin {
		freeOSMemory()
	}
	dropCode()
}

// dropCode unmaps the pages of files that are mapped without write permission. It skips mappings with private pages,
// which a loader may have written before: their content would be lost.
func dropCode() {
	fd, err := unix.Open("/proc/self/smaps", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var m mapping
	lines(fd, func(line []byte) {
		if next, ok := parseMapping(line); ok {
			m = next
			return
		}
		if m.code && isZero(line, "Anonymous:") {
			_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
		}
	})
}

// mapping is a memory mapping of this process.
type mapping struct {
	from, to uintptr
	code     bool // it maps a file and is not writable
}

// parseMapping parses the first line of a mapping in /proc/self/smaps, such as
//
//	00400000-00f06000 r-xp 00000000 fe:00 9981857    /usr/bin/berth
func parseMapping(line []byte) (m mapping, ok bool) {
	from, rest, ok1 := parseHex(line, '-')
	to, rest, ok2 := parseHex(rest, ' ')
	if !ok1 || !ok2 || len(rest) < 4 {
		return m, false
	}
	slash := false
	for _, c := range rest {
		slash = slash || c == '/'
	}
	return mapping{from, to, rest[1] == '-' && slash}, true
}

func parseHex(b []byte, end byte) (n uintptr, rest []byte, ok bool) {
	for i, c := range b {
		switch {
		case c == end && i > 0:
			return n, b[i+1:], true
		case c >= '0' && c <= '9':
			n = n<<4 | uintptr(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uintptr(c-'a'+10)
		default:
			return 0, nil, false
		}
	}
	return 0, nil, false
}

// isZero reports whether a line is the field name with the value 0, such as "Anonymous:  0 kB".
func isZero(line []byte, name string) bool {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return false
	}
	for _, c := range line[len(name):] {
		if c >= '1' && c <= '9' {
			return false
		}
	}
	return true
}

// lines calls f with each line of a file. f must not keep the slice. A line longer than the buffer is passed in pieces.
func lines(fd int, f func(line []byte)) {
	var buf [1 << 10]byte
	have := 0
	for {
		n, err := unix.Read(fd, buf[have:])
		if n <= 0 || err != nil {
			return
		}
		have += n
		start := 0
		for i := range have {
			if buf[i] == '\n' || i == len(buf)-1 && start == 0 {
				f(buf[start:i])
				start = i + 1
			}
		}
		have = copy(buf[:], buf[start:have])
	}
}
