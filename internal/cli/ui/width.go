package ui

import (
	"regexp"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
)

// columns measures the width of text in the same way in every locale.
var columns = &runewidth.Condition{StrictEmojiNeutral: true}

// Width returns the number of terminal columns of a text.
func Width(text string) int { return columns.StringWidth(text) }

// RuneWidth returns the number of terminal columns of a character.
func RuneWidth(r rune) int { return columns.RuneWidth(r) }

// Truncate shortens a line to at most width columns.
func Truncate(text string, width int) string { return columns.Truncate(text, width, "…") }

// Abridge shortens a text to at most width columns, unless --wide is given.
func (u *UI) Abridge(text string, width int) string {
	if u.Wide {
		return text
	}
	return Truncate(text, width)
}

// Wrap breaks a text into lines of at most width columns: at spaces, else after punctuation, else anywhere.
func Wrap(text string, width int) []string {
	if width <= 0 || Width(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line != "" && Width(line)+1+Width(word) <= width:
			line += " " + word
			continue
		case line != "":
			lines = append(lines, line)
		}
		for Width(word) > width {
			head := columns.Truncate(word, width, "")
			if head == "" { // one character is wider than the column
				head = string([]rune(word)[:1])
			}
			if at := strings.LastIndexAny(head, "_-/.,="); at > len(head)/2 {
				head = head[:at+1] // break after punctuation, not in the middle of a name
			}
			lines = append(lines, head)
			word = word[len(head):]
		}
		line = word
	}
	return append(lines, line)
}

// colours matches the escape sequences of Paint, which take no columns.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// wrapWords breaks a line at spaces where it is wider than width, and repeats its indentation. A word that is wider
// stays whole.
func wrapWords(line string, width int) string {
	printed := func(text string) int { return Width(colours.ReplaceAllString(text, "")) }
	if printed(line) <= width {
		return line
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var lines []string
	current := ""
	for _, word := range strings.Fields(line) {
		if current != "" && printed(current)+1+printed(word) > width {
			lines = append(lines, current)
			current = ""
		}
		if current == "" {
			current = indent + word
			continue
		}
		current += " " + word
	}
	return strings.Join(append(lines, current), "\n")
}

// WrapLine wraps a sentence at the width of the terminal.
func (u *UI) WrapLine(text string) []string { return Wrap(text, u.maxWidth()) }

// Reflow wraps paragraphs at the width of the terminal. It keeps indented lines, which are examples.
func (u *UI) Reflow(text string) string {
	most := u.maxWidth()
	if most == 0 {
		return text
	}
	var lines []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			lines = append(lines, Wrap(paragraph, most)...)
		}
		paragraph = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' {
			end()
			lines = append(lines, line)
			continue
		}
		paragraph = strings.TrimLeft(paragraph+" "+line, " ")
	}
	end()
	return strings.Join(lines, "\n")
}

// ReflowIndented wraps the lines that are wider than the terminal and keeps their indentation.
func (u *UI) ReflowIndented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if rest := strings.TrimLeft(line, " "); Width(line) > u.maxWidth() {
			indent := len(line) - len(rest)
			lines[i] = line[:indent] + u.Hang(rest, indent)
		}
	}
	return strings.Join(lines, "\n")
}

// Hang wraps a text that begins in column indent, and indents the following lines by the same width.
func (u *UI) Hang(text string, indent int) string {
	if u.maxWidth() == 0 {
		return text
	}
	return strings.Join(Wrap(text, max(u.maxWidth()-indent, 20)), "\n"+strings.Repeat(" ", indent))
}

// WideFlag adds --wide to a command that prints a table.
func (u *UI) WideFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&u.Wide, "wide", false, "print all columns and whole ids, however wide the terminal is")
}

// uuidLen is the length of the ids of sandboxes, conversations, keys and accounts.
const uuidLen = 36

// ShortID returns the end of an id at a terminal: UUIDs made at about the same time have the same beginning. All
// commands except rm and terminate accept short ids.
func (u *UI) ShortID(id string) string {
	if !u.Out.TTY || u.Wide || len(id) != uuidLen {
		return id
	}
	return id[uuidLen-8:]
}

// ShortVersion returns the end of a version's id at a terminal: the beginning is the time. All commands accept it.
func (u *UI) ShortVersion(id string) string {
	at := strings.LastIndexByte(id, '-')
	if !u.Out.TTY || u.Wide || at < 0 || len(id)-at < 7 {
		return id
	}
	return id[at+1:]
}
