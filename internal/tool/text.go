package tool

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sizes of what a tool answers, in bytes.
const (
	maxText = 30_000 // all of it
	maxLine = 2_000  // a line of a file
	notes   = 1_000  // of maxText, kept for what is said about the rest
)

// plain is text as JSON can hold it.
func plain(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// clip shortens a text, not in the middle of a character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:edge(text, most)] + "…"
}

// edge is the last place at or before n where a character begins. In bytes that are no text it is near.
func edge(text string, n int) int {
	for back := 0; back < utf8.UTFMax && n-back > 0; back++ {
		if utf8.RuneStart(text[n-back]) {
			return n - back
		}
	}
	return n
}

// clipLine shortens a line of a file and says how long it is. Size is that of the whole line, of which the
// text may be only the beginning.
func clipLine(line []byte, size int64) (text string, cut bool) {
	if size <= maxLine {
		return plain(string(line)), false
	}
	text = string(line[:min(len(line), maxLine+1)])
	return fmt.Sprintf("%s… [the line has %d bytes]", plain(text[:edge(text, maxLine)]), size), true
}

// shown is a name as it stands in an answer: one on a line, whatever is in it. Names that would not come out
// as they are, because they hold line ends, escape codes or worse, are quoted.
func shown(name string) string {
	if name == "" || name[0] == '"' || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return quoted(name)
	}
	return name
}

func quoted(name string) string { return strconv.Quote(name) }

// page collects lines until there is no more room.
type page struct {
	text strings.Builder
	full bool
}

// add adds a line. It reports false, from then on, when there is no room.
func (p *page) add(line string) bool {
	if p.full || p.text.Len()+len(line)+1 > maxText-notes {
		p.full = true
		return false
	}
	p.text.WriteString(line)
	p.text.WriteByte('\n')
	return true
}

// note adds a remark in brackets behind the lines.
func (p *page) note(format string, args ...any) {
	p.text.WriteString("(" + clip(fmt.Sprintf(format, args...), notes/2) + ")\n")
}
