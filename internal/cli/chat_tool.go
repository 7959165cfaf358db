package cli

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/berthdev/berth/api"
)

// mostResultLines is how much of a tool's result is shown: enough to see what kind of thing it is.
const mostResultLines = 3

// toolCall shows what the agent does, in one line.
func (s *screenTurn) toolCall(e api.TurnEvent) {
	s.open(api.EventToolCall)
	s.calls[e.ID], s.lastCall = e.Name, e.ID
	s.phase = "running " + tame(e.Name)
	text, indent := e.Name, ""
	if about := aboutCall(e.Input); about != "" {
		text += ": " + about
	}
	if e.Parent != "" {
		indent = "  "
	}
	s.aside(dim, indent+"⏺ "+s.fit(text, len(indent)+2))
}

// telling are the inputs of tools that say what a call is about, the best first.
var telling = []string{"command", "file_path", "path", "notebook_path", "pattern", "query", "url", "description", "prompt"}

// aboutCall is the one line that says what a call does.
func aboutCall(input json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil || len(fields) == 0 {
		return ""
	}
	for _, name := range telling {
		var value string
		if json.Unmarshal(fields[name], &value) == nil && value != "" {
			return oneLine(value)
		}
	}
	return oneLine(string(input))
}

// toolResult shows the beginning of what a tool gave.
func (s *screenTurn) toolResult(e api.TurnEvent) {
	s.open(api.EventToolResult)
	s.block = api.EventToolCall // calls and results are one list
	s.phase = "waiting for the agent"
	if e.Parent != "" {
		return
	}
	lines := strings.Split(first(strings.TrimRight(tame(e.Text), "\n "), "(no output)"), "\n")
	if e.ID != s.lastCall && s.calls[e.ID] != "" {
		lines[0] = s.calls[e.ID] + ": " + lines[0]
	}
	more := len(lines) - mostResultLines
	c := dim
	if e.Error {
		c = red
	}
	for i, line := range lines[:min(len(lines), mostResultLines)] {
		lead := "    "
		if i == 0 {
			lead = "  ⎿ "
		}
		s.aside(c, lead+s.fit(line, len([]rune(lead))))
	}
	if more > 0 {
		s.aside(dim, "    … "+plural(more, "more line", "more lines"))
	}
}

// oneLine is the first line of a text, with a mark if there are more.
func oneLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if rest != "" {
		line += " …"
	}
	return tame(line)
}

// tame is cleanLines with tabs as the spaces that they stand for.
func tame(text string) string {
	return cleanLines(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\t", "    "))
}

// fit cuts a line to the width of the terminal behind what was taken of it; logs have wide lines.
func (s *screenTurn) fit(text string, taken int) string {
	width := 200
	if s.f.err.tty {
		width = s.f.windowSize().Cols - 1
	}
	return cutTo(clean(text), max(width-taken, 10))
}

// cutTo is the beginning of a line that is not wider than so many columns.
func cutTo(text string, width int) string {
	wide := 0
	for i, r := range text {
		if wide += runeWidth(r); wide > width {
			short := []rune(text[:i])
			return string(short[:max(len(short)-1, 0)]) + "…"
		}
	}
	return text
}

// runeWidth is how many columns of a terminal a character takes.
func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) ||
		r >= 0x3000 && r <= 0x303e || r >= 0xff01 && r <= 0xff60 || r >= 0x1f300 && r <= 0x1faff):
		return 2
	}
	return 1
}
