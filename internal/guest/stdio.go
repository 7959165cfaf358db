package guest

import (
	"errors"
	"io"
	"os"
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
	copying sync.WaitGroup
}

// feed fills a command's input.
type feed struct {
	from io.Reader
	to   *os.File
}

// drain brings a command's output to its writer.
type drain struct {
	from *os.File
	to   io.Writer
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
		s.stdin = &feed{std.Stdin, ours}
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
	s.outputs = append(s.outputs, &drain{ours, to})
	return nil
}

// pipe makes a pipe and returns our end of it. Only ours does not block: the command's would, too, if both
// were made so.
func (s *streams) pipe(which wire.Streams, owner int) (*os.File, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	ours, theirs := p[0], p[1]
	if which == wire.Stdin {
		ours, theirs = p[1], p[0]
	}
	err := unix.SetNonblock(ours, true)
	if err == nil && owner >= 0 {
		err = unix.Fchown(theirs, owner, -1)
	}
	if err != nil {
		wire.CloseAll(p[:])
		return nil, os.NewSyscallError("prepare a pipe", err)
	}
	s.which |= which
	s.theirs = append(s.theirs, theirs)
	return os.NewFile(uintptr(ours), "pipe"), nil
}

// start begins to copy. The command has its ends by now.
func (s *streams) start() {
	s.closeTheirs()
	if s.stdin != nil {
		go s.stdin.run()
	}
	for _, d := range s.outputs {
		s.copying.Go(d.run)
	}
}

// finish ends the copying after the command ended: input at once, output when it is all there. It does
// not wait for a reader that has nothing to say.
func (s *streams) finish() {
	if s.stdin != nil {
		s.stdin.to.Close()
	}
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
		d.from.Close()
	}
}

// run ends with the reader, or when the command's end is closed.
func (f *feed) run() {
	_, _ = io.Copy(f.to, f.from)
	f.to.Close()
}

var copyBuffers = sync.Pool{New: func() any {
	b := make([]byte, 32<<10)
	return &b
}}

// run copies until all writers are gone, or until the deadline, and then what lies in the pipe. When
// nobody takes the output any more the command learns it as it would from a broken pipe.
func (d *drain) run() {
	defer d.from.Close()
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := d.from.Read(*buf)
		if n > 0 {
			if _, err := d.to.Write((*buf)[:n]); err != nil {
				return
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			d.rest(*buf)
		}
		if err != nil {
			return
		}
	}
}

// rest copies what lies in the pipe, which is no more than it can hold: descendants may go on writing.
func (d *drain) rest(buf []byte) {
	raw, err := d.from.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		left, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		if err != nil {
			return
		}
		for left > 0 {
			n, err := unix.Read(int(fd), buf[:min(len(buf), left)])
			if n <= 0 || err != nil {
				return
			}
			if _, err := d.to.Write(buf[:n]); err != nil {
				return
			}
			left -= n
		}
	})
}
