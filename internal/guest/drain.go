package guest

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/rate"
)

// drain copies a command's output from its pipe to the caller's writer.
type drain struct {
	fd   int // the reading end of the pipe; -1 after open
	from *os.File
	to   io.Writer
}

var copyBuffers = sync.Pool{New: func() any {
	b := make([]byte, 32<<10)
	return &b
}}

// open registers the pipe with Go's poller.
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

// empty copies the bytes that are in the pipe now. The pipe is not yet registered with the poller. empty closes the
// pipe and returns true if no more bytes can come: all writers have closed the pipe, or d.to returned an error.
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

// mostReads bounds the reads of empty: descendants of the command may write without end. It is enough for a full pipe.
const mostReads = 8

// run copies until all writers have closed the pipe. At the read deadline it copies the bytes that are in the pipe
// and returns. If d.to returns an error, run closes the pipe: the command's next write fails with EPIPE.
func (d *drain) run() {
	defer d.from.Close()
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	var limit rate.Limit
	for {
		n, err := d.from.Read(*buf)
		if n > 0 {
			if _, err := d.to.Write((*buf)[:n]); err != nil {
				return
			}
			time.Sleep(limit.Take(n, time.Now())) // a command that writes without end waits at its full pipe
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			d.rest(*buf)
		}
		if err != nil {
			return
		}
	}
}

// rest copies the bytes in the pipe, but no more than the pipe's size: descendants of the command may write without
// end.
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
