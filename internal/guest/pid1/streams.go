package pid1

import (
	"os"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// ends are the descriptors of a started process's streams: the process's ends and the helper's.
type ends struct {
	std     [3]int     // the process's ends
	inner   []int      // descriptors of std that the helper closes after the fork
	outputs []*os.File // the helper's ends for reading output
	input   int        // the helper's end for writing input; -1: none
	screen  int        // the helper's side of the terminal; -1: none
}

func (e *ends) closeInner() {
	wire.CloseAll(e.inner)
	e.inner = nil
}

func (e *ends) closeOuter() {
	for _, f := range e.outputs {
		f.Close()
	}
	if e.input >= 0 && e.input != e.screen {
		unix.Close(e.input)
	}
	if e.screen >= 0 {
		unix.Close(e.screen)
	}
}

// plumb makes the pipes or the terminal of a command.
func (s *server) plumb(c *wire.Cmd) (*ends, error) {
	e := &ends{std: [3]int{s.null, s.null, s.null}, input: -1, screen: -1}
	owner := s.owner(c)
	var err error
	if c.Terminal != nil {
		err = e.terminal(*c.Terminal, owner)
	} else {
		err = e.pipes(c.Input, owner)
	}
	if err != nil {
		e.closeInner()
		e.closeOuter()
		return nil, err
	}
	return e, nil
}

// owner returns the uid that must own the streams, so that the process can open /dev/stdout and similar paths. It is
// -1 if the process runs as the helper's user.
func (s *server) owner(c *wire.Cmd) int {
	switch {
	case s.Single:
		return -1
	case c.Root:
		return 0
	}
	return agentID
}

func (e *ends) pipes(input bool, owner int) error {
	if input {
		r, w, err := pipe(owner)
		if err != nil {
			return err
		}
		e.std[0], e.inner, e.input = r, append(e.inner, r), w
		if err := unix.SetNonblock(w, true); err != nil {
			return err
		}
	}
	for i := 1; i <= 2; i++ {
		r, w, err := pipe(owner)
		if err != nil {
			return err
		}
		e.std[i], e.inner = w, append(e.inner, w)
		if err := e.output(r); err != nil {
			return err
		}
	}
	return nil
}

func pipe(owner int) (r, w int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	if owner >= 0 {
		if err := unix.Fchown(p[0], owner, owner); err != nil {
			wire.CloseAll(p[:])
			return -1, -1, err
		}
	}
	return p[0], p[1], nil
}

// output adds a descriptor for reading output. e owns the descriptor.
func (e *ends) output(fd int) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return err
	}
	e.outputs = append(e.outputs, os.NewFile(uintptr(fd), "output"))
	return nil
}

// terminal makes a terminal. The helper has two descriptors of its own side: e.screen for input and for the size, and
// a copy of it for output.
func (e *ends) terminal(size wire.Size, owner int) error {
	screen, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	e.screen, e.input = screen, screen
	inner, err := terminalPeer(screen)
	if err != nil {
		return err
	}
	e.inner = append(e.inner, inner)
	e.std = [3]int{inner, inner, inner}
	if owner >= 0 {
		if err := unix.Fchown(inner, owner, -1); err != nil {
			return err
		}
	}
	if err := setSize(screen, size); err != nil {
		return err
	}
	output, err := unix.FcntlInt(uintptr(screen), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return e.output(output)
}

// terminalPeer opens the process's side of a terminal.
func terminalPeer(screen int) (int, error) {
	if err := unix.IoctlSetPointerInt(screen, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	// Opening the terminal by its path would not be safe: root in the instance may have changed /dev.
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(screen), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func setSize(screen int, size wire.Size) error {
	return unix.IoctlSetWinsize(screen, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}
