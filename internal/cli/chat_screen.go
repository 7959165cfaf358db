package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
)

// screenTurn shows a turn to a person: the answer on stdout, as it comes, and everything else on stderr.
type screenTurn struct {
	f        *frame
	answer   io.Writer // stdout, made harmless where it is a terminal
	closeOut func() error
	spin     *spinner

	block    string // what was shown last: a type of events
	midLine  bool   // the last text has no end of line yet
	streamed bool   // the block's text came in pieces
	wrote    bool   // some answer, before this block
	began    time.Time
	phase    string
	calls    map[string]string // names of tools by the ids of their calls
	lastCall string
}

func (f *frame) newScreenTurn() *screenTurn {
	s := &screenTurn{f: f, began: f.now(), phase: "waiting for the agent", calls: map[string]string{}}
	s.answer, s.closeOut = shownOn(f.out)
	return s
}

// waiting shows that something is waited for, unless that would be in the middle of a line.
func (s *screenTurn) waiting() {
	if s.spin == nil && !s.midLine {
		s.spin = s.f.spin(s.phase)
	}
}

// still clears the line for something to be shown.
func (s *screenTurn) still() {
	s.spin.stop()
	s.spin = nil
}

func (s *screenTurn) note(text string) {
	s.still()
	s.endLine()
	s.aside(dim, "· "+text)
}

func (s *screenTurn) close() error {
	s.still()
	s.endLine()
	return s.closeOut()
}

// event shows one event.
func (s *screenTurn) event(e api.TurnEvent) error {
	s.still()
	switch e.Type {
	case api.EventTurnStarted:
		if e.At != nil {
			s.began = *e.At
		}
	case api.EventTextDelta, api.EventText:
		if e.Parent == "" { // a sub-agent's words are for the agent
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

// open begins a block of another kind than the last, apart from it where a person looks at both.
func (s *screenTurn) open(kind string) {
	if s.block == kind {
		return
	}
	s.endLine()
	joined := kind == api.EventToolResult || kind == api.EventStatus && s.block != api.EventText
	if s.block != "" && !joined {
		switch {
		case kind == api.EventText && (s.wrote || s.f.out.tty):
			_, _ = io.WriteString(s.answer, "\n")
		case kind != api.EventText && s.f.out.tty && s.f.err.tty:
			fmt.Fprintln(s.f.err)
		}
	}
	s.block, s.streamed = kind, false
}

// endLine ends the line that a block left open.
func (s *screenTurn) endLine() {
	if !s.midLine {
		return
	}
	s.midLine = false
	if s.block == api.EventText {
		_, _ = io.WriteString(s.answer, "\n")
		return
	}
	fmt.Fprintln(s.f.err)
}

// text shows a piece of the answer, or the whole of a block that did not come in pieces.
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

// thinking is for people: it is no part of the answer, and nobody reads it in a log.
func (s *screenTurn) thinking(e api.TurnEvent) {
	if e.Text == "" || !s.f.err.tty {
		return
	}
	if e.Type == api.EventThinking && s.block == api.EventThinking && s.streamed {
		s.endLine()
		s.block = "thought"
		return
	}
	s.open(api.EventThinking)
	s.streamed, s.midLine = true, !strings.HasSuffix(e.Text, "\n")
	fmt.Fprint(s.f.err, s.f.err.paint(dim, tame(e.Text)))
}

// aside is one line that is not of the answer.
func (s *screenTurn) aside(c colour, text string) {
	s.f.notef("%s", s.f.err.paint(c, clean(text)))
}

// status tells what happens to the turn. What is usual is told by what waits.
func (s *screenTurn) status(e api.TurnEvent) {
	words, known := statusWords[e.Status]
	if known && words == "" {
		return
	}
	s.open(api.EventStatus)
	text := first(words, e.Status)
	if e.Message != "" {
		text += ": " + e.Message
	}
	s.phase = text
	s.aside(dim, "· "+s.fit(text, 2))
}

var statusWords = map[string]string{
	"queued": "queued", "recovering": "the sandbox is being recovered", "retrying": "trying once more", "session_replaced": "new session",
	"history_unavailable": "the agent starts without the messages so far",
	"output_lost":         "some of the agent's output is lost", "cancelling": "cancelling",
	"starting": "", "session_started": "",
}

// finished tells how the turn ended, and what it used.
func (s *screenTurn) finished(e api.TurnEvent) {
	s.open(e.Type)
	switch e.Status {
	case api.TurnCompleted:
	case api.TurnCancelled:
		s.aside(yellow, "the turn was cancelled")
	default:
		s.f.fail(api.NewProblem(e.Code, first(e.Message, "the turn was "+e.Status)))
	}
	for _, warning := range e.Warnings {
		s.aside(yellow, "berth: warning: "+warning)
	}
	took := s.f.now().Sub(s.began)
	if e.At != nil {
		took = e.At.Sub(s.began)
	}
	s.aside(dim, s.usageLine(e, took))
}
