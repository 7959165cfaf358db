package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Reader turns the lines of one turn's process into events. What it was told is its state: small, and all
// that another Reader needs to read on. Lines are an attacker's input.
type Reader interface {
	// Line is told one line, without its end, as valid UTF-8. It is not ok if it is no line of the agent's protocol. The line
	// is only valid during the call.
	Line(line []byte) (events []api.TurnEvent, ok bool)
	// End is how the turn ended by what the agent itself said. If the agent did not say, only what it used
	// counts.
	End() (end End, said bool)
	// State is what json.Marshal takes.
	State() any
}

const (
	// mostLine is the longest line that is read; longer ones are left out.
	mostLine = 8 << 20
	// stride is how far the cursor goes at most without a step, when there is nothing to tell.
	stride = 1 << 20
	// What is kept of what the agent writes beside its protocol, to explain its end.
	mostStderr  = 1 << 10
	mostGarbage = 200
)

// memory is what reading on needs.
type memory struct {
	Skip    bool            `json:"skip,omitempty"`    // within a line that is left out
	Seen    bool            `json:"seen,omitempty"`    // a text or a tool
	Note    string          `json:"note,omitempty"`    // what the wrapper told last
	Stderr  string          `json:"stderr,omitempty"`  // the end of it
	Garbage string          `json:"garbage,omitempty"` // the last line that was none
	Agent   json.RawMessage `json:"agent,omitempty"`   // the Reader's
}

// reading is one pass over a turn's output.
type reading struct {
	memory
	worker *Worker
	agent  Reader
	line   []byte // the beginning of the line that is not complete
	mark   int64  // the offset behind the last line
	last   int64  // the offset of the last step
	events []api.TurnEvent
}

func (w *Worker) open(t Turn, after Cursor) (*reading, error) {
	r := &reading{worker: w, mark: after.Offset, last: after.Offset}
	if len(after.State) > 0 {
		if err := json.Unmarshal(after.State, &r.memory); err != nil {
			return nil, sandbox.Errorf("read turn", api.CodeInvalidCursor, "the cursor is none of this turn's: %w", err)
		}
	}
	var err error
	if r.agent, err = w.Read(t, r.Agent); err != nil {
		return nil, sandbox.Errorf("read turn", api.CodeInvalidCursor, "the cursor is none of this turn's: %w", err)
	}
	return r, nil
}

// Events reads the turn's output behind the cursor.
func (w *Worker) Events(ctx context.Context, box Box, t Turn, after Cursor) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		r, err := w.open(t, after)
		if err != nil {
			yield(Step{}, err)
			return
		}
		for from := after.Offset; ; from = -1 {
			switch err := r.follow(box.Output(ctx, ProcessID(t), from), func() { dropInput(ctx, box, t) }, yield); {
			case errors.Is(err, errOver), errors.Is(err, errLeft):
				return
			case errors.Is(err, guest.ErrTrimmed):
				r.trimmed()
			case errors.Is(err, guest.ErrNoProcess) && r.mark == 0:
				yield(Step{}, err)
				return
			case errors.Is(err, guest.ErrNoProcess), errors.Is(err, guest.ErrInvalid):
				// Its instance is gone, and another has taken its place.
				dropInput(ctx, box, t)
				yield(r.finish(guest.Exit{Lost: true}), nil)
				return
			default:
				yield(Step{}, problem("read turn", err))
				return
			}
		}
	}
}

var (
	errOver = errors.New("the end was told")
	errLeft = errors.New("nobody listens any more")
)

// follow yields what the output gives until there is no more of it, and returns why there is not. It calls ended
// when the process has ended, before it yields the end: a consumer may stop there.
func (r *reading) follow(output iter.Seq2[guest.Chunk, error], ended func(), yield func(Step, error) bool) error {
	for c, err := range output {
		if err != nil {
			return err
		}
		r.take(c)
		if c.Exit != nil {
			r.complete(c.Next)
			ended()
			if !yield(r.finish(*c.Exit), nil) {
				return errLeft
			}
			return errOver
		}
		if len(r.events) == 0 && r.mark-r.last < stride {
			continue
		}
		if !yield(r.step(), nil) {
			return errLeft
		}
	}
	return errors.New("the output has no end")
}

// take reads one chunk.
func (r *reading) take(c guest.Chunk) {
	if c.Stream == guest.Stderr {
		r.Stderr = tail(r.Stderr+string(c.Data), mostStderr)
		if len(r.line) == 0 && !r.Skip {
			r.mark = c.Next
		}
		return
	}
	data := c.Data
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			break
		}
		r.lineEnd(data[:i])
		data = data[i+1:]
		r.mark = c.Next - int64(len(data))
	}
	r.begin(data, c.Next)
}

// lineEnd completes a line.
func (r *reading) lineEnd(rest []byte) {
	if len(r.line)+len(rest) > mostLine {
		r.leaveOut()
	}
	if r.Skip {
		r.Skip = false
		return
	}
	if len(r.line) > 0 {
		rest = append(r.line, rest...)
		r.line = nil
	}
	r.read(rest)
}

// begin keeps the beginning of a line.
func (r *reading) begin(data []byte, next int64) {
	if len(r.line)+len(data) > mostLine {
		r.leaveOut()
	}
	if r.Skip {
		r.mark = next
		return
	}
	r.line = append(r.line, data...)
}

func (r *reading) leaveOut() {
	if !r.Skip {
		r.tell(fmt.Sprintf("the agent wrote a line of more than %d MiB, which is left out", mostLine>>20))
	}
	r.Skip, r.line = true, nil
}

// trimmed goes on behind what is gone, which is in the middle of some line.
func (r *reading) trimmed() {
	r.tell("the agent wrote more than is kept while nobody read it; the oldest of it is gone")
	r.Skip, r.line = true, nil
}

func (r *reading) tell(message string) {
	r.events = append(r.events, api.TurnEvent{Type: api.EventStatus, Status: StatusOutputLost, Message: message})
}

// complete reads what came behind the last line's end, if it is a line.
func (r *reading) complete(end int64) {
	if len(r.line) > 0 && json.Valid(r.line) {
		r.lineEnd(nil)
	}
	r.line, r.mark = nil, end
}

func (r *reading) read(line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	if !utf8.Valid(line) { // which no database stores
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if note, ok := noteOf(line); ok {
		r.Note = note
		return
	}
	events, ok := r.agent.Line(line)
	if !ok {
		r.Garbage, _ = Clip(string(line), mostGarbage)
	}
	for i := range events {
		r.Seen = r.Seen || works(events[i].Type)
	}
	r.events = append(r.events, events...)
}

// works tells whether an event shows that the agent has done something.
func works(event string) bool {
	switch event {
	case api.EventText, api.EventTextDelta, api.EventToolCall, api.EventToolResult:
		return true
	}
	return false
}

// noteOf finds a line of the wrapper's.
func noteOf(line []byte) (string, bool) {
	if len(line) > 64 || !bytes.HasPrefix(line, []byte(`{"berth":`)) {
		return "", false
	}
	var told struct {
		Note string `json:"berth"`
	}
	if json.Unmarshal(line, &told) != nil {
		return "", false
	}
	return told.Note, true
}

// step hands out what was read. It is called where the state is that of the last line's end.
func (r *reading) step() Step {
	state, _ := json.Marshal(struct {
		memory
		Agent any `json:"agent,omitempty"`
	}{r.memory, r.agent.State()})
	s := Step{Events: r.events, Cursor: Cursor{Offset: r.mark, State: state}}
	r.events, r.last = nil, r.mark
	return s
}

// tail is the end of a text.
func tail(text string, most int) string {
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(bytes.ToValidUTF8([]byte(text), nil))
}
