package client

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Line is a line of a client's output, as JSON. Type says which fields are set.
type Line struct {
	Type    string          `json:"acp"`
	Text    string          `json:"text,omitempty"`
	ID      string          `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	IsError bool            `json:"is_error,omitempty"`
	Cut     bool            `json:"cut,omitempty"`
	Session string          `json:"session,omitempty"` // the agent's id of the session
	Model   string          `json:"model,omitempty"`
	Used    float64         `json:"used,omitempty"`
	CostUSD float64         `json:"cost_usd,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// The types of lines.
const (
	LineBegin         = "begin"  // the session is ready; with Session and Model
	LinePrompt        = "prompt" // the prompt is being sent
	LineCancel        = "cancel" // the agent was asked to cancel the turn
	LineDelta         = "delta"  // a piece of a text
	LineText          = "text"   // a whole text, which replaces its pieces
	LineThinkingDelta = "thinking_delta"
	LineThinking      = "thinking"
	LineToolCall      = "tool_call"   // with ID, Name, Input
	LineToolResult    = "tool_result" // with ID, Text, IsError
	LineNotice        = "notice"      // a remark of the agent for people
	LineRetry         = "retry"       // a call of the model was cut off and begins again
	LineContext       = "context"     // the size of the context in Used, and CostUSD of the process
	LineCall          = "call"        // the tokens of one call of the model in Answer
	LineBroken        = "broken"      // the agent reported that its thread failed
	LineFailure       = "failure"     // the text by which the agent reports a failed call of the model
	LineAnswer        = "answer"      // the result for the prompt, in Answer
	LineError         = "error"       // an error for the request in Text, in Answer; the last line
)

// Notes that the client writes in the form that agent.Worker reads.
const (
	noteCancelled    = "cancelled"
	noteNoSession    = "no_session"
	noteNotInstalled = "not_installed"
	noteUnreached    = "unreached"
)

// printer writes lines. It keeps them until flush, so that several lines of the same moment are one write.
type printer struct{ w *bufio.Writer }

func newPrinter(w io.Writer) *printer { return &printer{bufio.NewWriterSize(w, 64<<10)} }

func (p *printer) print(l Line) {
	raw, err := json.Marshal(l)
	if err != nil {
		return
	}
	_, _ = p.w.Write(append(raw, '\n'))
}

func (p *printer) note(note string) { fmt.Fprintf(p.w, "\n{\"berth\":%q}\n", note) }

func (p *printer) flush() { _ = p.w.Flush() }
