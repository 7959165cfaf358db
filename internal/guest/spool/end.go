package spool

import (
	"os"

	"github.com/berthdev/berth/internal/guest/wire"
)

// readEnd returns the end offset and the exit of the process. exit is nil while the process runs. The exit file is
// created empty with the spool and is later written in place, so readEnd keeps it open.
func (r *reader) readEnd() (end int64, exit *wire.Exit, err error) {
	if r.exit == nil {
		r.exit, err = openFile(r.dir + "/" + exitFile)
	}
	if err != nil {
		return 0, nil, err
	}
	if r.exit == nil {
		// The helper has not made the file yet, or died after it made the directory.
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

// forgetEnd closes the exit file. The next readEnd opens it again.
func (r *reader) forgetEnd() {
	closeFile(r.exit)
	r.exit = nil
}
