package tool

import (
	"bufio"
	"bytes"
	"io"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// lines goes through a file line by line, with little memory whatever is in it.
type lines struct {
	from    *bufio.Reader
	file    io.Reader
	left    *io.LimitedReader
	number  int64  // of the line at hand, from 1
	text    []byte // its beginning, without its end; good until the next
	size    int64  // of all of it
	stopped bool   // there is more than may be read
	err     error
}

const (
	maxHeld = 256 << 10 // bytes of a line that are kept
	sniff   = 8_000     // bytes in which a NUL makes a file no text
)

func newLines(file io.Reader, most int64) *lines {
	left := &io.LimitedReader{R: file, N: most}
	return &lines{from: bufio.NewReaderSize(left, 64<<10), file: file, left: left}
}

// binary reports whether the file is no text. It is asked first.
func (l *lines) binary() bool {
	head, _ := l.from.Peek(sniff)
	return bytes.IndexByte(head, 0) >= 0
}

// image is the type of an image by its first bytes, whatever its name is; empty: it is none that models know.
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

// next goes to the next line.
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
			l.err = sandbox.Errorf("read file", api.CodeInternal, "%w", err)
			return false
		}
		l.stopped = l.left.N <= 0 && l.beyond()
		if l.size > 0 {
			l.number++
		}
		return l.size > 0
	}
}

// beyond reports whether the file has more than may be read of it.
func (l *lines) beyond() bool {
	n, _ := l.file.Read(make([]byte, 1))
	return n > 0
}
