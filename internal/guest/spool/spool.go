// Package spool stores the output of long-lived processes in files on the host, outside their instance.
//
// A spool is a directory. The output is in segments. A segment is a file; its name is the offset of its first byte, and
// its content is a sequence of frames. A frame is a piece of one stream. When the output exceeds the size of the spool,
// the oldest segments are removed. The exit of the process is in a separate file, which is written last. It is made
// and its space is allocated with the spool, so the exit can be recorded also on a full disk.
//
// The instance's helper writes ([Create], [Writer]); the process itself never has any of these files open.
// The server reads ([Read], [Follow]) from any offset that is still there, also after the process, its instance or the
// server ended. [Close] writes the exit of spools whose writer has ended. Readers check all they read: a file may be
// truncated or damaged.
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

// ErrExists is the error of Create for an id that has a spool.
var ErrExists = errors.New("there is such a spool")

// Frame is a piece of output, or the end of it.
type Frame struct {
	Stream uint8 // 1: stdout, 2: stderr
	Data   []byte
	Next   int64      // the offset after Data
	Exit   *wire.Exit // on the last frame, which has no Data
}

// MaxFrame is the maximum length of a frame's Data in bytes.
const MaxFrame = 64 << 10

// header is the length of a frame's header: one byte for the stream and three for the length of the data.
const header = 4

const exitFile = "exit"

// The bounds of a segment's size in bytes. Within them it is an eighth of the kept output.
const (
	minSegment = 32 << 10
	maxSegment = 2 << 20
)

func segmentSize(keep int64) int64 { return min(max(keep/8, minSegment), maxSegment) }

// segmentName returns the name of the segment that starts at an offset: sixteen hexadecimal digits, so that names sort
// like offsets.
func segmentName(start int64) string {
	var name [16]byte
	for i := len(name) - 1; i >= 0; i-- {
		name[i] = "0123456789abcdef"[start&15]
		start >>= 4
	}
	return string(name[:])
}

// segmentStart returns the offset in a segment's name. ok is false for the names of other files.
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

// The exit file holds a version byte, the offset after the last byte of output, and the exit.
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

// writeAll writes all of b to a file.
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
