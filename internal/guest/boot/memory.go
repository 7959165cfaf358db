package boot

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
)

// Environ is what the helper should be started with. It works without, and is a little larger then: the
// runtime makes room for every processor before it can be told that one is enough.
func Environ() []string { return []string{"GOMAXPROCS=1"} }

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
	code   [][2]uintptr // where the program's code and constants are mapped
}

const (
	idleAfter = time.Second
	worthIt   = 64
)

func newIdler() *idler {
	i := &idler{code: mappedCode()}
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
	for _, m := range i.code {
		_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, m[0], m[1]-m[0], unix.MADV_DONTNEED)
	}
}

// mappedCode finds the parts of the program's file that are mapped and cannot be written.
func mappedCode() [][2]uintptr {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	var code [][2]uintptr
	for line := range strings.SplitSeq(string(maps), "\n") {
		f := strings.Fields(line)
		if len(f) < 6 || f[1][1] != '-' || f[5][0] != '/' {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		a, err1 := strconv.ParseUint(from, 16, 64)
		b, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil {
			code = append(code, [2]uintptr{uintptr(a), uintptr(b)})
		}
	}
	return code
}
