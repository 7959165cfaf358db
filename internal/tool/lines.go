package tool

import (
	"bufio"
	"bytes"
	"io"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// lines reads a file line by line. Its memory is bounded, also for a file with very long lines.
type lines struct {
	from    *bufio.Reader
	file    io.Reader
	left    *io.LimitedReader
	number  int64  // the number of the current line, from 1
	text    []byte // the first maxHeld bytes of the current line, without the newline; valid until next
	size    int64  // the size of the whole current line
	stopped bool   // the file has more bytes than may be read
	err     error
}

const (
	maxHeld = 256 << 10 // bytes of a line that are kept
	sniff   = 8_000     // a file with a NUL in its first bytes is binary
)

func newLines(file io.Reader, most int64) *lines {
	left := &io.LimitedReader{R: file, N: most}
	return &lines{from: bufio.NewReaderSize(left, 64<<10), file: file, left: left}
}

// binary reports whether the file is binary. It is called before next.
func (l *lines) binary() bool {
	head, _ := l.from.Peek(sniff)
	return bytes.IndexByte(head, 0) >= 0
}

// image returns the MIME type of an image file by its first bytes, or "" if it is not an image of a type that models
// accept. It is called before next.
func (l *lines) image() string {
	head, _ := l.from.Peek(12)
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "image/gif"
	case len(head) == 12 && string(head[:4]) == "RIFF" && string(head[8:]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// next reads the next line. It returns false at the end, at the limit, or after an error.
func (l *lines) next() bool {
	l.text, l.size = l.text[:0], 0
	for {
		part, err := l.from.ReadSlice('\n')
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		l.size += int64(len(part))
		l.text = append(l.text, part[:min(len(part), maxHeld-len(l.text))]...)
		switch {
		case ended:
			l.number++
			return true
		case err == bufio.ErrBufferFull:
			continue
		case err != io.EOF:
			l.err = fault.Errorf("read file", api.CodeInternal, "%w", err)
			return false
		}
		l.stopped = l.left.N <= 0 && l.beyond()
		if l.size > 0 {
			l.number++
		}
		return l.size > 0
	}
}

// beyond reports whether the file has more bytes after the limit.
func (l *lines) beyond() bool {
	n, _ := l.file.Read(make([]byte, 1))
	return n > 0
}
