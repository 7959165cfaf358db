package boot

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/internal/guest/spool"
	"github.com/berthdev/berth/internal/guest/unix"
)

// pumpSize is how much is moved at once.
const pumpSize = spool.MaxFrame

// pump moves what comes out of a pipe or a terminal into a spool, in a goroutine.
type pump struct {
	server *server
	file   *os.File
	stream uint8
	spool  *spool.Writer
	until  atomic.Int64 // when to stop even though more comes; 0: not
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
		for !p.over() {
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
		}
		return true
	})
}

// heldPause is how long a pump waits before it looks again whether a reader has gone on.
const heldPause = 5 * time.Millisecond

// held waits a little if a reader of the spool is behind: the process then waits for it at its full pipe. The
// last words of a process that has ended do not wait for readers.
func (p *pump) held() bool {
	if p.until.Load() != 0 || !p.spool.Held() {
		return false
	}
	time.Sleep(heldPause)
	return true
}

// move moves once. A spool that cannot be written does not keep the process from running on.
func (p *pump) move(fd int) (n int, err error) {
	b := &p.server.pumped
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err = unix.ReadNow(fd, b.bytes[:pumpSize])
	if n > 0 {
		_ = p.spool.Write(p.stream, b.bytes[:n])
	}
	return max(n, 0), err
}

func (p *pump) over() bool {
	until := p.until.Load()
	return until != 0 && now() > until
}

// end waits until the pump has run dry, but no longer than to a point in time, and closes its source.
func (p *pump) end(until time.Time) {
	p.until.Store(until.UnixNano())
	_ = p.file.SetReadDeadline(until)
	<-p.done
	p.file.Close()
}

// pace slows down a process that writes very little at a time and very often: each piece takes a frame and
// two system calls, and while the pump waits, pieces grow together in the pipe.
type pace struct {
	tokens int
	since  time.Time
}

const (
	paceBurst = 256
	paceEvery = 5 * time.Millisecond // a token
	paceLarge = 4 << 10              // larger pieces are free
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
