// Package screen shows output of a sandbox at a user's terminal safely.
//
// Escape sequences can do harm: set the clipboard, hide a link's target, ask for answers that are typed into the next
// program, rename the window, make the terminal unreadable. A [Writer] passes text, line breaks, tabs and colours, and
// shows everything else as text, so that nothing is hidden: \x1b]52;c;… instead of a new clipboard.
package screen

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Writer makes output safe for a terminal. An escape sequence may be split over several writes. A Writer is not safe
// for concurrent use.
type Writer struct {
	out      io.Writer
	rest     []byte // beginning of an incomplete sequence or character
	coloured bool   // colours are on
}

// NewWriter returns a Writer that writes to the terminal out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write writes p in safe form. It keeps an incomplete sequence or character for the next call.
func (w *Writer) Write(p []byte) (int, error) {
	data := append(w.rest, p...)
	var shown bytes.Buffer
	for len(data) > 0 {
		n := w.writeNext(&shown, data)
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

// Close writes the kept bytes as text and resets colours. It does not close the terminal.
func (w *Writer) Close() error {
	var shown bytes.Buffer
	for _, b := range w.rest {
		literal(&shown, b)
	}
	if w.coloured {
		shown.WriteString("\x1b[0m")
	}
	w.rest, w.coloured = nil, false
	if shown.Len() == 0 {
		return nil
	}
	_, err := w.out.Write(shown.Bytes())
	return err
}

// writeNext writes the first character or sequence of data and returns its length. It returns zero if data is
// incomplete.
func (w *Writer) writeNext(to *bytes.Buffer, data []byte) int {
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
	// longest is the maximum length of an escape sequence that is passed. No colour sequence is longer.
	longest = 64
)

// sequence passes sequences that change colours or clear the rest of a line. For any other it writes only the escape
// character as text; the bytes after it are handled like other text.
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
			w.coloured = !reset(data[2 : 2+i])
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

// reset reports whether the parameters of a colour sequence turn all colours off.
func reset(params []byte) bool {
	last := params[bytes.LastIndexByte(params, ';')+1:]
	return len(bytes.Trim(last, "0")) == 0
}

// literal writes a byte as visible text.
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

// harmless reports whether a character is safe to print. Control characters are not safe. Marks that change the
// direction of text are not safe either, because they make text look like other text.
func harmless(r rune) bool {
	return !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) && r != '\u2028' && r != '\u2029'
}
