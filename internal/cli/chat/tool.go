package chat

import (
	"encoding/json"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

// maxResultLines is the number of lines shown of a tool's result.
const maxResultLines = 3

// toolCall shows a tool call in one line.
func (s *screenTurn) toolCall(e api.TurnEvent) {
	s.open(api.EventToolCall)
	s.calls[e.ID], s.lastCall = e.Name, e.ID
	s.phase = "running " + ui.CleanText(e.Name)
	text, indent := e.Name, ""
	if about := aboutCall(e.Input); about != "" {
		text += ": " + about
	}
	if e.Parent != "" {
		indent = "  "
	}
	s.aside(ui.Dim, indent+"⏺ "+s.fit(text, len(indent)+2))
}

// subjectInputs are the names of the inputs that best describe a tool call, in order of preference.
var subjectInputs = []string{"command", "file_path", "path", "notebook_path", "pattern", "query", "url", "description", "prompt"}

// aboutCall returns a one-line description of a tool call.
func aboutCall(input json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil || len(fields) == 0 {
		return ""
	}
	for _, name := range subjectInputs {
		var value string
		if json.Unmarshal(fields[name], &value) == nil && value != "" {
			return ui.OneLine(value)
		}
	}
	return ui.OneLine(string(input))
}

// toolResult shows the first lines of a tool's result.
func (s *screenTurn) toolResult(e api.TurnEvent) {
	s.open(api.EventToolResult)
	s.block = api.EventToolCall // calls and results are one list
	s.phase = "waiting for the agent"
	if e.Parent != "" {
		return
	}
	lines := strings.Split(ui.First(strings.TrimRight(ui.CleanText(e.Text), "\n "), "(no output)"), "\n")
	if e.ID != s.lastCall && s.calls[e.ID] != "" {
		lines[0] = s.calls[e.ID] + ": " + lines[0]
	}
	more := len(lines) - maxResultLines
	c := ui.Dim
	if e.Error {
		c = ui.Red
	}
	for i, line := range lines[:min(len(lines), maxResultLines)] {
		lead := "    "
		if i == 0 {
			lead = "  ⎿ "
		}
		s.aside(c, lead+s.fit(line, len([]rune(lead))))
	}
	if more > 0 {
		s.aside(ui.Dim, "    … "+ui.Plural(more, "more line", "more lines"))
	}
}

// fit cuts text to the width of the terminal without the columns already taken. Elsewhere it cuts to a fixed width.
func (s *screenTurn) fit(text string, taken int) string {
	width := 200
	if s.a.Err.TTY {
		width = s.a.WindowSize().Cols - 1
	}
	return ui.Truncate(ui.Clean(text), max(width-taken, 10))
}
