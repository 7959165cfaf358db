package guest

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// drain brings a command's output to its writer.
type drain struct {
	fd   int // our end of the pipe, until it is opened
	from *os.File
	to   io.Writer
}

var copyBuffers = sync.Pool{New: func() any {
	b := make([]byte, 32<<10)
	return &b
}}

// open has the poller watch the pipe.
func (d *drain) open() { d.from, d.fd = os.NewFile(uintptr(d.fd), "pipe"), -1 }

func (d *drain) close() {
	switch {
	case d.from != nil:
		d.from.Close()
	case d.fd >= 0:
		unix.Close(d.fd)
		d.fd = -1
	}
}

// empty takes what lies in a pipe that nobody watches. It is true, and the pipe is closed, if nothing more
// can come: its writers are gone, or nobody takes it any more.
func (d *drain) empty() bool {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for range mostReads {
		n, err := unix.Read(d.fd, *buf)
		if err == unix.EINTR {
			continue
		}
		if n > 0 {
			_, err = d.to.Write((*buf)[:n])
		}
		if n == 0 || err != nil && err != unix.EAGAIN {
			d.close()
			return true
		}
		if err != nil {
			return false
		}
	}
	return false
}

// mostReads is enough for a full pipe. Descendants of the command may go on writing.
const mostReads = 8

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
