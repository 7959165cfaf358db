package pid1

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/internal/guest/spool"
	"github.com/berthdev/berth/internal/guest/unix"
)

// pumpSize is the maximum number of bytes that move copies.
const pumpSize = spool.MaxFrame

// pump copies output from a pipe or a terminal to a spool, in a goroutine.
type pump struct {
	server *server
	file   *os.File
	stream uint8
	spool  *spool.Writer
	until  atomic.Int64 // the deadline as Unix time in ns, set by end; 0: none
	pace   pace
	done   chan struct{}
}

func (s *server) pump(f *os.File, stream uint8, w *spool.Writer) *pump {
	p := &pump{server: s, file: f, stream: stream, spool: w, done: make(chan struct{})}
	go p.run()
	return p
}

func (p *pump) run() {
	defer close(p.done)
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		for !p.expired() {
			if p.held() {
				continue
			}
			n, err := p.move(int(fd))
			if err == unix.EAGAIN {
				return false
			}
			if n == 0 && err != unix.EINTR {
				return true
			}
			p.pace.wait(n)
			p.slow(n)
		}
		return true
	})
	if p.expired() {
		_ = raw.Control(func(fd uintptr) { p.rest(int(fd)) })
	}
}

// rest copies the bytes that are in the pipe at the deadline: on a busy machine, these may be all that the process has
// written. It copies no more than the pipe's size, because descendants of the process may write without end.
func (p *pump) rest(fd int) {
	left, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		left = terminalSize
	}
	for left > 0 {
		n, err := p.move(fd)
		if n == 0 && err != unix.EINTR {
			return
		}
		left -= n
	}
}

// terminalSize is the number of bytes that a terminal holds for its reader, at most.
const terminalSize = 64 << 10

// slow pauses if the processes of the instance exceed the output rate. A process then blocks when its pipe is full.
// slow does not pause for the last output of a process that has ended.
func (p *pump) slow(n int) {
	s := p.server
	s.rateMu.Lock()
	pause := s.rate.Take(n, time.Now())
	s.rateMu.Unlock()
	if pause > 0 && p.until.Load() == 0 {
		time.Sleep(pause)
	}
}

// heldPause is the pause of a pump between two checks of a slow reader's progress.
const heldPause = 5 * time.Millisecond

// held pauses and returns true if the spool has to wait for a reader. The process then blocks when its pipe is full.
// held does not wait for readers with the last output of a process that has ended.
func (p *pump) held() bool {
	if p.until.Load() != 0 || !p.spool.Held() {
		return false
	}
	time.Sleep(heldPause)
	return true
}

// move copies one piece of output. It ignores errors of the spool, so that the process can continue.
func (p *pump) move(fd int) (n int, err error) {
	b := &p.server.pumped
	b.mu.Lock()
	n, err = unix.ReadNow(fd, b.bytes[:pumpSize])
	if n > 0 {
		_ = p.spool.Write(p.stream, b.bytes[:n])
	}
	b.mu.Unlock()
	p.server.countOutput(max(n, 0))
	return max(n, 0), err
}

func (p *pump) expired() bool {
	until := p.until.Load()
	return until != 0 && now() > until
}

// end waits until the pump has copied all output, but not longer than until, and closes its source.
func (p *pump) end(until time.Time) {
	p.until.Store(until.UnixNano())
	_ = p.file.SetReadDeadline(until)
	<-p.done
	p.file.Close()
}

// pace slows down the copying for a process that makes many small writes. Each piece takes a frame and two system
// calls; while the pump pauses, small writes collect in the pipe to one larger piece.
type pace struct {
	tokens int
	since  time.Time
}

const (
	paceBurst = 256                  // tokens; a small piece takes one
	paceEvery = 5 * time.Millisecond // the time for a new token
	paceLarge = 4 << 10              // bytes; pieces of this size take no token
)

func (p *pace) wait(n int) {
	if n >= paceLarge {
		runtime.Gosched()
		return
	}
	t := time.Now()
	if gained := int(t.Sub(p.since) / paceEvery); gained > 0 {
		p.tokens, p.since = min(p.tokens+gained, paceBurst), t
	}
	if p.tokens > 0 {
		p.tokens--
		return
	}
	time.Sleep(paceEvery)
	p.since = time.Now()
}
