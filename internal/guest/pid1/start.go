package pid1

import (
	"os"
	"time"

	"github.com/berthdev/berth/internal/guest/spool"
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// The minimum and maximum bytes that a spool keeps.
const (
	leastKept = 4 << 10
	mostKept  = 256 << 20
)

// start starts a process that outlives the connection. If the command cannot be run, the process ends at once.
func (s *server) start(id string, c *wire.Cmd) wire.Reply {
	if why := s.check(c); why != "" {
		return invalid(why)
	}
	if !wire.ValidID(id) {
		return invalid("a process's id has 1 to 64 of a-z, 0-9 and -")
	}
	most := int64(mostKept)
	if s.SpoolBytes > 0 {
		most = min(most, s.SpoolBytes)
	}
	w, err := spool.Create(s.Spools, id, min(max(c.Keep, leastKept), most))
	if err == spool.ErrExists {
		return wire.Reply{Code: wire.Exists}
	}
	if err == unix.ENOSPC || err == unix.EDQUOT {
		return wire.Reply{Code: wire.DiskFull}
	}
	if err != nil {
		return failure("make a spool", err)
	}
	p := &process{
		id: id, argv: shorten(c.Argv), terminal: c.Terminal != nil, started: now(),
		spool: w, input: -1, screen: -1,
	}
	s.mu.Lock()
	s.processes[id] = p
	s.mu.Unlock()
	if exit := s.begin(p, c); exit != nil {
		s.finish(p, exit)
	}
	return wire.Reply{}
}

// shorten returns the first KiB of a command, for lists of processes.
func shorten(argv []string) []string {
	const most = 1 << 10
	left := most
	for i, arg := range argv {
		if len(arg) > left {
			return append(append([]string(nil), argv[:i]...), arg[:left]+"…")
		}
		left -= len(arg) + 1
	}
	return argv
}

// begin runs the process and starts goroutines that copy its output and wait for its end. If the process cannot be run,
// begin returns an exit with the reason.
func (s *server) begin(p *process, c *wire.Cmd) *wire.Exit {
	cmd, exit := s.prepare(c)
	if exit != nil {
		return exit
	}
	ends, err := s.plumb(c)
	if err != nil {
		return refusal(cannotRun, "make its streams", err)
	}
	if c.Terminal != nil {
		cmd.sys.Setctty, cmd.sys.Ctty = true, 0
	}
	exited := make(chan *wire.Exit, 1)
	child, exit := s.fork(&cmd, ends.std, func(x *wire.Exit) { exited <- x })
	ends.closeInner()
	if exit != nil {
		ends.closeOuter()
		return exit
	}
	s.mu.Lock()
	p.child, p.input, p.screen = child, ends.input, ends.screen
	s.mu.Unlock()
	go s.follow(p, ends.outputs, exited, time.Duration(c.Timeout))
	return nil
}

// await waits for the end of a process. It kills the process's session after timeout.
func (s *server) await(p *process, exited <-chan *wire.Exit, timeout time.Duration) *wire.Exit {
	if timeout <= 0 {
		return <-exited
	}
	over := time.NewTimer(timeout)
	defer over.Stop()
	select {
	case exit := <-exited:
		return exit
	case <-over.C:
	}
	killed := s.killSession(p.child)
	exit := <-exited
	if killed {
		exit.Code, exit.Reason = timedOut, "killed after "+timeout.String()
	}
	return exit
}

// grace is the longest time after a process's end in which output of its descendants is still copied.
const grace = time.Second

// follow copies the output of the process to its spool and records its end.
func (s *server) follow(p *process, outputs []*os.File, exited <-chan *wire.Exit, timeout time.Duration) {
	pumps := make([]*pump, len(outputs))
	for i, f := range outputs {
		pumps[i] = s.pump(f, uint8(i+1), p.spool)
	}
	exit := s.await(p, exited, timeout)
	s.closeInputOf(p)
	until := time.Now().Add(grace)
	for _, pump := range pumps {
		pump.end(until)
	}
	s.closeScreen(p)
	s.finish(p, exit)
}

// closeInputOf closes the input of a process that has ended.
func (s *server) closeInputOf(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.input >= 0 && !p.terminal {
		unix.Close(p.input)
	}
	p.input = -1
}

func (s *server) closeScreen(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.screen >= 0 {
		unix.Close(p.screen)
	}
	p.screen = -1
}

// finish records the exit of the process and ends its spool. It sets the status before the spool, so a reader that has
// seen the exit in the spool also finds it in the status. It flushes the spool to the disk after readers can see the
// end.
func (s *server) finish(p *process, exit *wire.Exit) {
	s.mu.Lock()
	p.exit = exit
	s.ended = append(s.ended, p.id)
	old := s.forget()
	s.mu.Unlock()
	for _, id := range old {
		_ = spool.Remove(s.Spools, id)
	}
	_ = p.spool.Finish(*exit)
	s.syncMu.Lock()
	_ = p.spool.Sync()
	s.syncMu.Unlock()
}
