package spool

import (
	"os"

	"github.com/berthdev/berth/internal/guest/wire"
)

// readEnd is how the process ended; exit is nil while it has not. The file is there, empty, from the start,
// and is written in place: once open it stays so.
func (r *reader) readEnd() (end int64, exit *wire.Exit, err error) {
	if r.exit == nil {
		r.exit, err = openFile(r.dir + "/" + exitFile)
	}
	if err != nil {
		return 0, nil, err
	}
	if r.exit == nil {
		// The helper died between making the directory and the file, or is about to make it.
		_, err := os.Stat(r.dir)
		return 0, nil, none(err)
	}
	if r.buf == nil {
		r.buf = make([]byte, maxExit+1)
	}
	n, err := readAt(r.exit, r.buf, 0)
	if err != nil || n == 0 {
		return 0, nil, err
	}
	if n > maxExit {
		return 0, nil, ErrDamaged
	}
	end, x, err := decodeEnd(r.buf[:n])
	return end, &x, err
}

// forgetEnd closes the file of the end, which is opened anew when it is looked for again.
func (r *reader) forgetEnd() {
	closeFile(r.exit)
	r.exit = nil
}
