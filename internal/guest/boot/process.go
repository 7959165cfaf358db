package boot

import (
	"github.com/berthdev/berth/internal/guest/spool"
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// process is a process that was started under an id. All of it is guarded by the server's lock.
type process struct {
	id       string
	argv     []string
	terminal bool
	started  int64
	spool    *spool.Writer
	child    *child     // nil: it could not be run
	exit     *wire.Exit // set when all is in the spool but this
	input    int        // where its input is written, or -1
	screen   int        // its terminal, or -1
}

// What is kept of processes that ended: so many, with no more output than that altogether.
const (
	remembered      = 256
	rememberedBytes = mostKept
)

func (s *server) status(id string) wire.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[id]
	if p == nil {
		return wire.Reply{Code: wire.NoProcess}
	}
	return wire.Reply{Processes: []wire.Process{p.describe()}}
}

func (s *server) list() wire.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]wire.Process, 0, len(s.processes))
	for _, p := range s.processes {
		all = append(all, p.describe())
	}
	return wire.Reply{Processes: all}
}

func (p *process) describe() wire.Process {
	d := wire.Process{ID: p.id, Argv: p.argv, Terminal: p.terminal, StartedAt: p.started, Exit: p.exit}
	d.First, d.End = p.spool.Range()
	return d
}

func (s *server) signal(id string, sig unix.Signal) wire.Reply {
	if sig > 64 {
		return invalid("no such signal")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[id]
	if p == nil || !s.alive(p.child) {
		return wire.Reply{Code: wire.NoProcess}
	}
	if err := unix.Kill(-p.child.pid, sig); err != nil {
		return failure("kill", err)
	}
	return wire.Reply{}
}

// input hands out the writing end of a process's input, or its terminal.
func (s *server) input(id string) (wire.Reply, []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[id]
	switch {
	case p == nil:
		return wire.Reply{Code: wire.NoProcess}, nil
	case p.input < 0 || !s.alive(p.child):
		return wire.Reply{Code: wire.NoInput}, nil
	}
	return pass(p.input)
}

// closeInput ends a process's input. A terminal has no end: there it is what a user would type.
func (s *server) closeInput(id string) wire.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[id]
	switch {
	case p == nil:
		return wire.Reply{Code: wire.NoProcess}
	case p.input < 0:
		return wire.Reply{Code: wire.NoInput}
	case p.terminal:
		const endOfTransmission = 4
		_, _ = unix.Write(p.screen, []byte{endOfTransmission})
	default:
		unix.Close(p.input)
	}
	p.input = -1
	return wire.Reply{}
}

func (s *server) resize(id string, size wire.Size) wire.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[id]
	switch {
	case p == nil:
		return wire.Reply{Code: wire.NoProcess}
	case !p.terminal:
		return invalid("the process has no terminal")
	case p.screen < 0:
		return wire.Reply{Code: wire.NoProcess}
	}
	if err := setSize(p.screen, size); err != nil {
		return failure("resize", err)
	}
	return wire.Reply{}
}

// forget drops the oldest of the processes that ended, if there are too many or they wrote too much. It
// returns those whose spools are to go, too.
func (s *server) forget() (old []string) {
	total := int64(0)
	for i := len(s.ended) - 1; i >= 0; i-- {
		first, end := s.processes[s.ended[i]].spool.Range()
		total += end - first
		if newest := len(s.ended) - 1; i < newest && (newest-i >= remembered || total > rememberedBytes) {
			old = append(old, s.ended[:i+1]...)
			break
		}
	}
	for _, id := range old {
		delete(s.processes, id)
	}
	s.ended = append(s.ended[:0], s.ended[len(old):]...)
	return old
}
