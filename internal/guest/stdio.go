package guest

import (
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

// streams are the pipes of one run.
type streams struct {
	which   wire.Streams
	theirs  []int // the command's ends
	stdin   *feed
	outputs []*drain

	later   *time.Timer   // begins to copy the outputs
	begun   chan struct{} // closed when it has
	copying sync.WaitGroup
}

// feed fills a command's input.
type feed struct {
	from io.Reader
	to   *os.File
}

func openStreams(std Stdio, owner int) (*streams, error) {
	s := new(streams)
	err := s.open(std, owner)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *streams) open(std Stdio, owner int) error {
	if std.Stdin != nil {
		ours, err := s.pipe(wire.Stdin, owner)
		if err != nil {
			return err
		}
		s.stdin = &feed{std.Stdin, os.NewFile(uintptr(ours), "pipe")}
	}
	if std.Stdout != nil {
		if err := s.output(wire.Stdout, std.Stdout, owner); err != nil {
			return err
		}
	}
	switch {
	case std.Stderr == nil:
		return nil
	case same(std.Stdout, std.Stderr):
		// One pipe keeps the order in which the command wrote.
		s.theirs = append(s.theirs, s.theirs[len(s.theirs)-1])
		s.which |= wire.Stderr
		return nil
	}
	return s.output(wire.Stderr, std.Stderr, owner)
}

// same tells whether both are one writer. Writers that cannot be compared are two.
func same(a, b io.Writer) (is bool) {
	defer func() { _ = recover() }()
	return a == b
}

func (s *streams) output(which wire.Streams, to io.Writer, owner int) error {
	ours, err := s.pipe(which, owner)
	if err != nil {
		return err
	}
	s.outputs = append(s.outputs, &drain{fd: ours, to: to})
	return nil
}

// pipe makes a pipe and returns our end of it. Only ours does not block: a command does not expect that
// of its own.
func (s *streams) pipe(which wire.Streams, owner int) (ours int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, os.NewSyscallError("pipe2", err)
	}
	ours, theirs := p[0], p[1]
	if which == wire.Stdin {
		ours, theirs = p[1], p[0]
	}
	_, err = unix.FcntlInt(uintptr(theirs), unix.F_SETFL, 0)
	if err == nil && owner >= 0 {
		err = unix.Fchown(theirs, owner, -1)
	}
	if err != nil {
		wire.CloseAll(p[:])
		return -1, os.NewSyscallError("prepare a pipe", err)
	}
	s.which |= which
	s.theirs = append(s.theirs, theirs)
	return ours, nil
}

// copyAfter is how long a command runs before its output is copied. Until then it stays in the pipes: what
// most commands write fits, and is read at once when they have ended.
const copyAfter = 2 * time.Millisecond

// start begins to copy. The command has its ends by now.
func (s *streams) start() {
	s.closeTheirs()
	if s.stdin != nil {
		go s.stdin.run()
	}
	if len(s.outputs) > 0 {
		s.begun = make(chan struct{})
		s.later = time.AfterFunc(copyAfter, s.copy)
	}
}

func (s *streams) copy() {
	defer close(s.begun)
	for _, d := range s.outputs {
		d.open()
		s.copying.Go(d.run)
	}
}

// finish ends the copying after the command ended: input at once, output when it is all there. It does
// not wait for a reader that has nothing to say.
func (s *streams) finish() {
	if s.stdin != nil {
		s.stdin.to.Close()
	}
	if s.later == nil {
		return
	}
	if s.later.Stop() {
		s.outputs = slices.DeleteFunc(s.outputs, (*drain).empty)
		s.copy()
	}
	<-s.begun
	until := time.Now().Add(outputGrace)
	for _, d := range s.outputs {
		_ = d.from.SetReadDeadline(until)
	}
	s.copying.Wait()
}

func (s *streams) closeTheirs() {
	if n := len(s.theirs); n > 1 && s.theirs[n-1] == s.theirs[n-2] {
		s.theirs = s.theirs[:n-1]
	}
	wire.CloseAll(s.theirs)
	s.theirs = nil
}

func (s *streams) close() {
	s.closeTheirs()
	if s.stdin != nil {
		s.stdin.to.Close()
	}
	for _, d := range s.outputs {
		d.close()
	}
}

// run ends with the reader, or when the command's end is closed.
func (f *feed) run() {
	_, _ = io.Copy(f.to, f.from)
	f.to.Close()
}
