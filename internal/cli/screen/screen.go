// Package screen shows a program's output on a person's terminal without handing the terminal over.
//
// What a terminal obeys can do harm: set the clipboard, hide a link's target, ask questions whose answers
// are typed into the next program, rename the window, leave it unreadable. A [Writer] lets text, line
// breaks, tabs and colours through and shows everything else as what it is, so that nothing is lost from
// sight: \x1b]52;c;… instead of a new clipboard.
package screen

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Writer makes what is written to it harmless. Sequences may be split over writes in any way. It is for
// one goroutine.
type Writer struct {
	out  io.Writer
	rest []byte // the beginning of what cannot be judged yet
	hued bool   // colours are on
}

// NewWriter returns a Writer to a terminal.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write shows what can be judged, and keeps the rest for the next one.
func (w *Writer) Write(p []byte) (int, error) {
	data := append(w.rest, p...)
	var shown bytes.Buffer
	for len(data) > 0 {
		n := w.one(&shown, data)
		if n == 0 {
			break
		}
		data = data[n:]
	}
	w.rest = bytes.Clone(data)
	if _, err := w.out.Write(shown.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close shows what is left and ends the colours that are still on. It does not close the terminal.
func (w *Writer) Close() error {
	var shown bytes.Buffer
	for _, b := range w.rest {
		literal(&shown, b)
	}
	if w.hued {
		shown.WriteString("\x1b[0m")
	}
	w.rest, w.hued = nil, false
	if shown.Len() == 0 {
		return nil
	}
	_, err := w.out.Write(shown.Bytes())
	return err
}

// one shows what the data begins with and returns its length, or zero if more is needed to judge it.
func (w *Writer) one(to *bytes.Buffer, data []byte) int {
	switch b := data[0]; {
	case b == escape:
		return w.sequence(to, data)
	case b == '\n' || b == '\t' || b == '\r' || b >= ' ' && b < 0x7f:
		to.WriteByte(b)
		return 1
	case b < utf8.RuneSelf:
		literal(to, b)
		return 1
	case !utf8.FullRune(data):
		return 0
	}
	r, n := utf8.DecodeRune(data)
	switch {
	case r == utf8.RuneError && n == 1:
		literal(to, data[0])
	case !harmless(r):
		fmt.Fprintf(to, `\u%04x`, r)
	default:
		to.Write(data[:n])
	}
	return n
}

const (
	escape = 0x1b
	// longest is more than any colour takes. What is longer is no colour.
	longest = 64
)

// sequence passes a change of colours, or the clearing of a line behind the cursor, and shows the escape
// of any other; what follows it is then text like any other.
func (w *Writer) sequence(to *bytes.Buffer, data []byte) int {
	if len(data) == 1 {
		return 0
	}
	if data[1] != '[' {
		literal(to, escape)
		return 1
	}
	for i, b := range data[2:] {
		switch {
		case i >= longest:
		case b >= '0' && b <= '9' || b == ';' || b == ':':
			continue
		case b == 'm':
			w.hued = !reset(data[2 : 2+i])
			fallthrough
		case b == 'K':
			to.Write(data[:i+3])
			return i + 3
		}
		literal(to, escape)
		return 1
	}
	return 0
}

// reset says whether the parameters of a change of colours end all of them.
func reset(params []byte) bool {
	last := params[bytes.LastIndexByte(params, ';')+1:]
	return len(bytes.Trim(last, "0")) == 0
}

// literal shows a byte as what it is.
func literal(to *bytes.Buffer, b byte) {
	switch {
	case b >= ' ' && b < 0x7f:
		to.WriteByte(b)
	case b == '\a':
		to.WriteString(`\a`)
	case b == '\b':
		to.WriteString(`\b`)
	default:
		fmt.Fprintf(to, `\x%02x`, b)
	}
}

// harmless is everything that draws, or joins what is drawn. Controls do not, nor do the marks that turn
// the reading order around and so make text look like another.
func harmless(r rune) bool {
	return !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) && r != '\u2028' && r != '\u2029'
}
