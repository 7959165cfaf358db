package cli

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
)

// raw makes a terminal hand on every key as it is typed, and returns how to make it as it was.
func raw(file *os.File) (restore func(), err error) {
	fd := int(file.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	mode := *before
	mode.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	mode.Oflag &^= unix.OPOST
	mode.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	mode.Cflag &^= unix.CSIZE | unix.PARENB
	mode.Cflag |= unix.CS8
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &mode); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil
}

// windowSize is the size of the terminal at hand, or that of an old one.
func (f *frame) windowSize() *api.TermSize {
	for _, stream := range []any{f.Stdout, f.Stdin, f.Stderr} {
		file, ok := stream.(*os.File)
		if !ok {
			continue
		}
		w, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
		if err == nil && w.Col > 0 && w.Row > 0 {
			return &api.TermSize{Cols: int(w.Col), Rows: int(w.Row)}
		}
	}
	return &api.TermSize{Cols: 80, Rows: 24}
}

// tidy undoes what a program may have left a terminal in: colours, a hidden cursor, mouse and paste
// reports, other keypads.
const tidy = "\x1b[0m\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>"

// mainScreen leaves the second screen that editors use.
const mainScreen = "\x1b[?1047l"
