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
	theirs  []int // the ends of the pipes for the command
	stdin   *feed
	outputs []*drain

	later   *time.Timer   // calls copy after copyAfter
	begun   chan struct{} // closed when copy has started all goroutines
	copying sync.WaitGroup
}

// feed copies a reader to a command's input.
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

// same reports whether a and b are the same writer. It reports false for writers of a type that cannot be compared.
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

// pipe makes a pipe and returns the server's end of it. Only that end is non-blocking: commands expect blocking
// standard streams.
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

// copyAfter is the time from the start of a command until its output is copied. The output of a shorter command fits
// in the pipes in most cases and is read at once after the command ended, without the poller.
const copyAfter = 2 * time.Millisecond

// start begins the copying. The command's ends of the pipes have been sent to the helper.
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

// finish ends the copying after the command ended. It closes the input at once, without waiting for a Stdin that is
// blocked in Read, and waits up to outputGrace for the rest of the output.
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

// run copies until the reader ends, or until no process has the pipe's reading end open.
func (f *feed) run() {
	_, _ = io.Copy(f.to, f.from)
	f.to.Close()
}
