package boot

import (
	"runtime"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/berthdev/berth/internal/guest/unix"
)

// Environ is what the helper should be started with. It works without, and is a little larger and slower
// then: the runtime makes room for every processor before it can be told that one is enough, and looks for
// the cgroup that limits them, which it keeps open.
func Environ() []string { return []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0"} }

// freeOSMemory is runtime/debug's, without that package: importing it would bring fmt along, and would let
// most packages of the program be initialised before this one.
//
//go:linkname freeOSMemory runtime/debug.freeOSMemory
func freeOSMemory()

// frugal makes the runtime prefer memory to speed.
func frugal() {
	if runtime.GOMAXPROCS(0) != 1 {
		runtime.GOMAXPROCS(1)
	}
	runtime.MemProfileRate = 0
}

// idler gives memory back when nothing was asked for a while.
type idler struct {
	timer *time.Timer
	busy  atomic.Int64
	// How many requests left their garbage. The first collection makes the runtime larger for good, so
	// there is none for a few.
	served atomic.Int64
}

const (
	idleAfter = time.Second
	worthIt   = 64
)

func newIdler() *idler {
	i := new(idler)
	i.timer = time.AfterFunc(idleAfter, i.rest)
	return i
}

// begin and end surround a request.
func (i *idler) begin() { i.busy.Add(1) }

func (i *idler) end() {
	i.served.Add(1)
	if i.busy.Add(-1) == 0 {
		i.timer.Reset(idleAfter)
	}
}

// rest returns what the heap does not need, and unmaps code: what is used again is found in the page cache.
func (i *idler) rest() {
	if i.served.Swap(0) >= worthIt {
		freeOSMemory()
	}
	dropCode()
}

// dropCode unmaps the pages of files that are mapped only to be read. A mapping that was ever written, as
// those of a loader are, has pages of its own and is left alone: they would be lost.
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

// mapping is a line of /proc/self/smaps that starts the description of one.
type mapping struct {
	from, to uintptr
	code     bool // of a file, and not to be written
}

// parseMapping reads a line such as
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

// isZero tells whether a line says "name  0 kB".
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

// lines calls f with each line of a file, in a buffer that f must not keep. Longer ones are cut in pieces.
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
