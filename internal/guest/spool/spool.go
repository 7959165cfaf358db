// Package spool keeps what a long-lived process writes, on the host's side of an instance.
//
// A spool is a directory. The output lies in segments, each a file named by the offset of its first byte;
// a segment is a row of frames, each a piece of one stream. When more is written than the spool keeps, the
// oldest segments go. How the process ended is in a file of its own, which is made with the spool, so that
// a full disk cannot keep the end from being recorded, and written last.
//
// The instance's helper writes ([Create], [Writer]); the process itself never holds any of these files.
// The server reads ([Read]), from any offset that is still there, while the process runs and after it, its
// instance or the server itself ended; [Close] ends what nobody will write on. Readers take nothing for
// granted: a file may be cut short, or be no spool at all.
package spool

import (
	"errors"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// Errors of a reader.
var (
	ErrNone    = errors.New("no such spool")
	ErrTrimmed = errors.New("that part of the output is gone")
	ErrBeyond  = errors.New("the output is not that long")
	ErrDamaged = errors.New("the spool is damaged")
)

// ErrExists is a spool that Create would have to make a second time.
var ErrExists = errors.New("there is such a spool")

// Frame is a piece of output, or the end of it.
type Frame struct {
	Stream uint8 // 1: stdout, 2: stderr
	Data   []byte
	Next   int64      // the offset behind Data
	Exit   *wire.Exit // on the last frame, which has no Data
}

// MaxFrame is how long the Data of a frame can be.
const MaxFrame = 64 << 10

// A frame is its stream, its length in three bytes, and its data.
const header = 4

const exitFile = "exit"

// How long segments are: an eighth of what is kept, within these bounds.
const (
	minSegment = 32 << 10
	maxSegment = 2 << 20
)

func segmentSize(keep int64) int64 { return min(max(keep/8, minSegment), maxSegment) }

// segmentName is sixteen hexadecimal digits, so that names sort like offsets.
func segmentName(start int64) string {
	var name [16]byte
	for i := len(name) - 1; i >= 0; i-- {
		name[i] = "0123456789abcdef"[start&15]
		start >>= 4
	}
	return string(name[:])
}

// segmentStart is the offset in a segment's name; no other file has a name like that.
func segmentStart(name string) (start int64, ok bool) {
	if len(name) != 16 || name[0] > '7' {
		return 0, false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= '0' && c <= '9':
			start = start<<4 | int64(c-'0')
		case c >= 'a' && c <= 'f':
			start = start<<4 | int64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return start, true
}

// The end of a spool: a version, the offset behind the last byte, and the exit.
const (
	exitVersion = 1
	maxExit     = 1 << 10
	maxReason   = 512
)

func encodeEnd(end int64, x wire.Exit) []byte {
	if len(x.Reason) > maxReason {
		x.Reason = x.Reason[:maxReason]
	}
	b := append(make([]byte, 0, 128), exitVersion)
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(end>>shift))
	}
	return x.Append(b)
}

func decodeEnd(b []byte) (end int64, x wire.Exit, err error) {
	if len(b) < 10 || b[0] != exitVersion {
		return 0, x, ErrDamaged
	}
	for _, c := range b[1:9] {
		end = end<<8 | int64(c)
	}
	x, err = wire.DecodeExit(b[9:])
	if err != nil || end < 0 {
		return 0, x, ErrDamaged
	}
	return end, x, nil
}

// writeAll writes all of b to a file that has no other writer.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
