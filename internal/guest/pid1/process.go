package pid1

import (
	"github.com/berthdev/berth/internal/guest/spool"
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// process is a process that OpStart started. The server's lock guards its fields.
type process struct {
	id       string
	argv     []string
	terminal bool
	started  int64
	spool    *spool.Writer
	child    *child     // nil: the command could not be run
	exit     *wire.Exit // set after all output is in the spool
	input    int        // the descriptor for writing its input, or -1
	screen   int        // the server's side of its terminal, or -1
}

// The number of ended processes that the helper remembers, and the maximum bytes of their output together.
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

// input replies with a copy of the writing end of a process's input, or of its terminal.
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

// closeInput ends a process's input. On a terminal it writes the character of Ctrl-D, as a user would.
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

// forget drops the oldest ended processes if there are too many or their output is too large. It returns their ids;
// the caller removes their spools.
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
