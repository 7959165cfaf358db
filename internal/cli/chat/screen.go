package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

// screenTurn shows a turn to a person: the answer on stdout while it arrives, and everything else on stderr.
type screenTurn struct {
	a        *app
	answer   io.Writer // stdout; at a terminal, unsafe characters are escaped
	closeOut func() error
	spin     *ui.Spinner

	block    string // event type of the last shown block, or "said" or "thought" after its end
	midLine  bool   // the last text did not end with a newline
	streamed bool   // the block's text arrived in pieces
	wrote    bool   // a part of the answer was written
	began    time.Time
	phase    string
	calls    map[string]string // names of tools by the ids of their calls
	lastCall string
}

func (a *app) newScreenTurn() *screenTurn {
	s := &screenTurn{a: a, began: a.Now(), phase: "waiting for the agent", calls: map[string]string{}}
	s.answer, s.closeOut = ui.SafeWriter(a.Out)
	return s
}

// waiting shows the spinner, unless the cursor is in the middle of a line.
func (s *screenTurn) waiting() {
	if s.spin == nil && !s.midLine {
		s.spin = s.a.Spin(s.phase)
	}
}

// clearSpinner removes the spinner, so that something else can be printed.
func (s *screenTurn) clearSpinner() {
	s.spin.Stop()
	s.spin = nil
}

func (s *screenTurn) note(text string) {
	s.clearSpinner()
	s.endLine()
	s.aside(ui.Dim, "· "+text)
}

func (s *screenTurn) close() error {
	s.clearSpinner()
	s.endLine()
	return s.closeOut()
}

// event shows one event.
func (s *screenTurn) event(e api.TurnEvent) error {
	s.clearSpinner()
	switch e.Type {
	case api.EventTurnStarted:
		if e.At != nil {
			s.began = *e.At
		}
	case api.EventTextDelta, api.EventText:
		if e.Parent == "" { // the answer of a sub-agent is not for the user
			return s.text(e)
		}
	case api.EventThinkingDelta, api.EventThinking:
		if e.Parent == "" {
			s.thinking(e)
		}
	case api.EventToolCall:
		s.toolCall(e)
	case api.EventToolResult:
		s.toolResult(e)
	case api.EventStatus:
		s.status(e)
	case api.EventTurnFinished:
		s.finished(e)
	}
	return nil
}

// open begins a block of another kind. It prints an empty line between two blocks if they appear in the same output.
func (s *screenTurn) open(kind string) {
	if s.block == kind {
		return
	}
	s.endLine()
	joined := kind == api.EventToolResult || kind == api.EventStatus && s.block != api.EventText
	if s.block != "" && !joined {
		switch {
		case kind == api.EventText && (s.wrote || s.a.Out.TTY):
			_, _ = io.WriteString(s.answer, "\n")
		case kind != api.EventText && s.a.Out.TTY && s.a.Err.TTY:
			fmt.Fprintln(s.a.Err)
		}
	}
	s.block, s.streamed = kind, false
}

// endLine ends the current line if it has no newline yet.
func (s *screenTurn) endLine() {
	if !s.midLine {
		return
	}
	s.midLine = false
	if s.block == api.EventText {
		_, _ = io.WriteString(s.answer, "\n")
		return
	}
	fmt.Fprintln(s.a.Err)
}

// text shows a piece of the answer, or a whole block if it did not arrive in pieces.
func (s *screenTurn) text(e api.TurnEvent) error {
	whole := e.Type == api.EventText
	if whole && s.block == api.EventText && s.streamed {
		s.endLine()
		s.block = "said"
		return nil
	}
	if e.Text == "" {
		return nil
	}
	s.open(api.EventText)
	s.streamed, s.wrote, s.midLine = true, true, !strings.HasSuffix(e.Text, "\n")
	_, err := io.WriteString(s.answer, e.Text)
	if whole {
		s.endLine()
		s.block = "said"
	}
	return err
}

// thinking shows the agent's thoughts at a terminal only. They are not part of the answer.
func (s *screenTurn) thinking(e api.TurnEvent) {
	if e.Text == "" || !s.a.Err.TTY {
		return
	}
	if e.Type == api.EventThinking && s.block == api.EventThinking && s.streamed {
		s.endLine()
		s.block = "thought"
		return
	}
	s.open(api.EventThinking)
	s.streamed, s.midLine = true, !strings.HasSuffix(e.Text, "\n")
	fmt.Fprint(s.a.Err, s.a.Err.Paint(ui.Dim, ui.CleanText(e.Text)))
}

// aside prints a line that is not part of the answer.
func (s *screenTurn) aside(c ui.Colour, text string) {
	s.a.Notef("%s", s.a.Err.Paint(c, ui.Clean(text)))
}

// status prints unusual changes of the turn. The spinner shows the usual ones.
func (s *screenTurn) status(e api.TurnEvent) {
	words, known := statusWords[e.Status]
	if known && words == "" {
		return
	}
	s.open(api.EventStatus)
	text := ui.First(words, e.Status)
	if e.Message != "" {
		text += ": " + e.Message
	}
	s.phase = text
	s.aside(ui.Dim, "· "+s.fit(text, 2))
}

var statusWords = map[string]string{
	"queued": "queued", "recovering": "the sandbox is being recovered", "retrying": "trying once more", "waiting": "waiting for the sandbox", "session_replaced": "new session",
	"history_unavailable": "the agent starts without the messages so far",
	"workspace_restored":  "the sandbox was made again",
	"output_lost":         "some of the agent's output is lost", "cancelling": "cancelling",
	"untested_version": "untested version",
	"starting":         "", "session_started": "",
}

// finished prints the turn's result and usage.
func (s *screenTurn) finished(e api.TurnEvent) {
	s.open(e.Type)
	switch e.Status {
	case api.TurnCompleted:
	case api.TurnCancelled:
		s.aside(ui.Yellow, "the turn was cancelled")
	default:
		s.a.Fail(api.NewProblem(e.Code, ui.First(e.Message, "the turn was "+e.Status)))
	}
	for _, warning := range e.Warnings {
		s.aside(ui.Yellow, "berth: warning: "+warning)
	}
	took := s.a.Now().Sub(s.began)
	if e.At != nil {
		took = e.At.Sub(s.began)
	}
	s.aside(ui.Dim, s.usageLine(e, took))
}

// newTurnView returns the view for the output format: JSON lines or a terminal.
func (a *app) newTurnView() turnView {
	if a.JSON {
		return jsonTurn{a.Out}
	}
	return a.newScreenTurn()
}

// jsonTurn prints each event as one line of JSON.
type jsonTurn struct{ out io.Writer }

func (j jsonTurn) event(e api.TurnEvent) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = io.WriteString(j.out, ui.EscapeJSON(string(data))+"\n")
	return err
}

func (j jsonTurn) waiting() {}

func (j jsonTurn) note(string) {}

func (j jsonTurn) close() error { return nil }

// usageLine returns one line with the tokens, cost, duration and saved version of a turn.
func (s *screenTurn) usageLine(e api.TurnEvent, took time.Duration) string {
	var parts []string
	if u := e.Usage; u != nil {
		about := ""
		if u.Estimated {
			about = "≈ "
		}
		parts = append(parts, about+ui.Thousands(u.InputTokens)+" in", ui.Thousands(u.OutputTokens)+" out")
		if cache := u.CacheReadTokens + u.CacheWriteTokens; cache > 0 {
			parts = append(parts, "cache "+ui.Thousands(cache))
		}
	}
	if e.CostUSD > 0 {
		parts = append(parts, ui.Dollars(e.CostUSD))
	}
	parts = append(parts, ui.Brief(max(took, 0)))
	line := "↑ " + strings.Join(parts, " · ")
	switch {
	case e.VersionPending:
		return line + " · not saved yet"
	case e.Version == "":
		return line
	}
	whole := line + " · version " + e.Version
	if s.a.Err.TTY && len([]rune(whole)) >= s.a.WindowSize().Cols {
		// Commands accept the end of a version.
		return line + " · version …" + e.Version[max(len(e.Version)-6, 0):]
	}
	return whole
}
