package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/berthdev/berth/internal/egress"
)

// process serves the ways out of all sandboxes of a data directory.
type process struct {
	id      string
	owner   int // the user that may send requests, besides root
	share   int // connections that one listener may have at once
	log     *slog.Logger
	level   *slog.LevelVar
	journal *journal
	total   egress.Traffic // of all runs

	mu      sync.Mutex
	runs    map[string]*run   // by instance
	leaving map[*run]struct{} // runs without listeners, which finish their connections
	lastRun int64
	asked   time.Time // time of the last request
	leave   bool      // end as soon as no run is left
}

// run is one run of an instance.
type run struct {
	number  int64
	sockets map[uint16]uint64 // the inodes of its listeners by port, which identify the run
	ways    egress.Ways
	traffic egress.Traffic
	helper  *os.File // becomes readable when the instance ends; nil: unknown
}

func newProcess(owner int) *process {
	p := &process{
		id: strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36), owner: owner,
		share: shareOfConnections(), level: new(slog.LevelVar), journal: new(journal),
		runs: map[string]*run{}, leaving: map[*run]struct{}{}, asked: time.Now(),
	}
	p.log = slog.New(slog.NewJSONHandler(p.journal, &slog.HandlerOptions{Level: p.level}))
	return p
}

// shareOfConnections bounds the connections of one listener, so that a sandbox cannot take all descriptors from the others.
// A connection takes two.
func shareOfConnections() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return egress.DefaultLimits.Conns
	}
	return shareOf(files.Cur)
}

func shareOf(files uint64) int { return int(max(8, min(uint64(egress.DefaultLimits.Conns), files/16))) }

// Serve serves the ways out until they are not needed any more. The socket listens for requests of the user owner. The
// caller has given up all rights but to connect.
func Serve(socket *os.File, owner int) error {
	l, err := net.FileListener(socket)
	if err := errors.Join(err, socket.Close()); err != nil {
		return err
	}
	unixListener, ok := l.(*net.UnixListener)
	if !ok {
		return errors.Join(errors.New("the socket is none of the file system"), l.Close())
	}
	return newProcess(owner).serve(unixListener)
}

// serve answers requests until the process is not needed any more.
func (p *process) serve(l *net.UnixListener) error {
	unneeded := make(chan struct{})
	go p.watch(l, unneeded)
	for {
		c, err := l.AcceptUnix()
		switch {
		case err == nil:
			go p.handle(c)
		case errors.Is(err, net.ErrClosed):
			<-unneeded
			return nil
		default: // too few descriptors, for example
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// watch closes the listener once the process is not needed any more.
func (p *process) watch(l *net.UnixListener, unneeded chan<- struct{}) {
	defer close(unneeded)
	for range time.Tick(100 * time.Millisecond) {
		if p.unneeded() {
			_ = l.Close()
			return
		}
	}
}

func (p *process) unneeded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.runs) == 0 && len(p.leaving) == 0 && (p.leave || time.Since(p.asked) > idleEnd)
}

// handle answers the request of a connection, if it is one of the server's user.
func (p *process) handle(c *net.UnixConn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(askTime))
	if uid, err := peer(c); err != nil || uid != 0 && uid != p.owner {
		return
	}
	var r request
	files, err := receive(c, &r)
	defer closeFiles(files)
	if err != nil {
		return
	}
	answer := p.do(&r, files)
	answer.Process = p.id
	_ = send(c, answer, nil)
}

func (p *process) do(r *request, files []*os.File) (answer reply) {
	p.mu.Lock()
	p.asked = time.Now()
	p.mu.Unlock()
	var err error
	switch r.Op {
	case opAttach:
		answer.Run, err = p.attach(r, files)
	case opDetach:
		p.detach(r.Instance, r.Run)
	case opPoll:
		answer.Report = p.report(r)
	case opDrain:
		p.drain()
	case opEnd:
		p.mu.Lock()
		p.leave = true
		p.mu.Unlock()
	default:
		err = fmt.Errorf("unknown operation %q", r.Op)
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}

func (p *process) report(r *request) *report {
	p.level.Set(r.Level)
	out := &report{Traffic: countOf(&p.total)}
	if r.Process != p.id {
		r.Seen = 0
	}
	out.Lines, out.Dropped = p.journal.take(r.Seen)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.runs {
		out.Runs = append(out.Runs, runTraffic{r.number, countOf(&r.traffic)})
	}
	return out
}

func countOf(t *egress.Traffic) traffic { return traffic{t.In.Load(), t.Out.Load()} }

// drain gives up all listeners. Connections go on for drainTime at most.
func (p *process) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave = true
	for instance, r := range p.runs {
		delete(p.runs, instance)
		p.leaving[r] = struct{}{}
		r.ways.Drain()
		time.AfterFunc(drainTime, r.ways.Close)
		go func() {
			r.ways.Wait()
			p.forget(instance, r)
		}()
	}
}
