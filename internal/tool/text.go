package tool

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/internal/fault"
)

// Maximum sizes of the text of an answer, in bytes.
const (
	maxText = 30_000 // the whole text
	maxLine = 2_000  // a line of a file
	notes   = 1_000  // the part of maxText that is reserved for notes about omitted text
)

// plain replaces bytes that are not valid UTF-8, which JSON cannot hold.
func plain(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// clipLine shortens a long line and appends its size. size is the size of the whole line; line may be only its
// beginning.
func clipLine(line []byte, size int64) (text string, cut bool) {
	if size <= maxLine {
		return plain(string(line)), false
	}
	text = string(line[:min(len(line), maxLine+1)])
	return fmt.Sprintf("%s… [the line has %d bytes]", plain(text[:fault.RuneEdge(text, maxLine)]), size), true
}

// shown returns a name for an answer. It quotes names with newlines, escape codes and other characters that are not
// printable.
func shown(name string) string {
	if name == "" || name[0] == '"' || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return quoted(name)
	}
	return name
}

func quoted(name string) string { return strconv.Quote(name) }

// page collects lines until they reach the maximum size of an answer.
type page struct {
	text strings.Builder
	full bool
}

// add adds a line. After the first line that does not fit, it adds no more lines and returns false.
func (p *page) add(line string) bool {
	if p.full || p.text.Len()+len(line)+1 > maxText-notes {
		p.full = true
		return false
	}
	p.text.WriteString(line)
	p.text.WriteByte('\n')
	return true
}

// note adds a remark in parentheses after the lines.
func (p *page) note(format string, args ...any) {
	p.text.WriteString("(" + fault.Clip(fmt.Sprintf(format, args...), notes/2) + ")\n")
}
