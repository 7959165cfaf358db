package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
)

// Reader turns the lines of a turn's process into events. Its state is small and complete, so that another Reader can
// continue from it. The lines may come from an attacker.
type Reader interface {
	// Line reads one line of valid UTF-8, without its line break and, unless Worker.Plain, the white space around it.
	// It is not ok if the line is not part of the agent's
	// protocol. The line is only valid during the call.
	Line(line []byte) (events []api.TurnEvent, ok bool)
	// End returns the end of the turn as the agent reported it. If said is false the agent has not reported an end,
	// and only its usage and model are valid.
	End() (end End, said bool)
	// State returns the state as a value for json.Marshal.
	State() any
}

// quitter is a Reader that detects an agent that repeats a request that cannot succeed. If Quit returns true the turn
// is cancelled, and it ends as Reader.End reports.
type quitter interface{ Quit() bool }

// early is a Reader of an agent that may have done something before an event shows it. If the process of the turn was
// killed itself, what the agent printed last may be missing.
type early interface{ Worked(killed bool) bool }

// dated is a Reader of a part of Berth that runs in the sandbox (see Job.Inside). The sandbox may have been started by an
// older Berth, without that part: words are then what the helper printed instead.
type dated interface{ Dated(words string) bool }

// worked reports whether the agent may have done something that no event shows.
func (r *reading) worked(exit guest.Exit) bool {
	e, ok := r.agent.(early)
	return ok && e.Worked(exit.Lost || exit.Signal != 0)
}

const (
	// maxLine is the length of the longest line that is read, in bytes. Longer lines are left out.
	maxLine = 8 << 20
	// stride is the number of bytes after which a step is yielded even if there are no events.
	stride = 1 << 20
	// Limits in bytes of output that explains how the agent ended: the end of stderr, and a line outside the protocol.
	maxStderr  = 1 << 10
	maxGarbage = 200
)

// memory is the state in a cursor. A later reading continues from it.
type memory struct {
	Skip    bool            `json:"skip,omitempty"`    // inside a line that is left out
	Seen    bool            `json:"seen,omitempty"`    // the agent wrote a text or used a tool
	Note    string          `json:"note,omitempty"`    // the last note of the wrapper
	Quit    bool            `json:"quit,omitempty"`    // cancelled because the agent could not succeed
	Stderr  string          `json:"stderr,omitempty"`  // the last bytes of stderr
	Garbage string          `json:"garbage,omitempty"` // the last line outside the protocol
	Agent   json.RawMessage `json:"agent,omitempty"`   // the state of the Reader
}

// reading is one pass over a turn's output.
type reading struct {
	memory
	worker *Worker
	turn   Turn
	agent  Reader
	line   []byte // the start of the line that is not complete yet
	mark   int64  // the offset after the last complete line
	last   int64  // the offset of the last step
	events []api.TurnEvent
}

func (w *Worker) open(t Turn, after Cursor) (*reading, error) {
	r := &reading{worker: w, turn: t, mark: after.Offset, last: after.Offset}
	if len(after.State) > 0 {
		if err := json.Unmarshal(after.State, &r.memory); err != nil {
			return nil, fault.Errorf("read turn", api.CodeInvalidCursor, "the cursor is none of this turn's: %w", err)
		}
	}
	var err error
	if r.agent, err = w.Read(t, r.Agent); err != nil {
		return nil, fault.Errorf("read turn", api.CodeInvalidCursor, "the cursor is none of this turn's: %w", err)
	}
	return r, nil
}

// Events reads the turn's output after the cursor.
func (w *Worker) Events(ctx context.Context, h *engine.Handle, t Turn, after Cursor) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		r, err := w.open(t, after)
		if err != nil {
			yield(Step{}, err)
			return
		}
		for from := after.Offset; ; from = -1 {
			on := callbacks{ended: func() { dropInput(ctx, h, t) }, quit: func() { w.quit(ctx, h, t) }}
			switch err := r.follow(h.Output(ctx, ProcessID(t), from), on, yield); {
			case errors.Is(err, errOver), errors.Is(err, errLeft):
				return
			case errors.Is(err, guest.ErrTrimmed):
				r.trimmed()
			case errors.Is(err, guest.ErrNoProcess) && r.mark == 0:
				yield(Step{}, err)
				return
			case errors.Is(err, guest.ErrNoProcess), errors.Is(err, guest.ErrInvalid):
				// The instance that ran the turn was replaced by another one.
				dropInput(ctx, h, t)
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
	errOver = errors.New("the end was yielded")
	errLeft = errors.New("the reader stopped")
)

// callbacks are called by follow.
type callbacks struct {
	ended func() // called after the exit, before the last step is yielded: the consumer may stop there
	quit  func() // called when the agent cannot succeed
}

// quit cancels, in the background, a turn whose agent cannot succeed. If that fails, the agent gives up later by
// itself.
func (w *Worker) quit(ctx context.Context, h *engine.Handle, t Turn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitTime)
	go func() {
		defer cancel()
		_ = w.Cancel(ctx, h, t)
	}()
}

// quitTime bounds an attempt to cancel a turn.
const quitTime = time.Minute

// follow yields steps until the output ends. It returns errOver after the last step, errLeft if the consumer stopped,
// or the error of the output.
func (r *reading) follow(output iter.Seq2[guest.Chunk, error], on callbacks, yield func(Step, error) bool) error {
	for c, err := range output {
		if err != nil {
			return err
		}
		r.take(c)
		if q, ok := r.agent.(quitter); ok && !r.Quit && q.Quit() {
			r.Quit = true
			on.quit()
		}
		if c.Exit != nil {
			r.complete(c.Next, *c.Exit)
			on.ended()
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

// take reads one chunk of output.
func (r *reading) take(c guest.Chunk) {
	if c.Stream == guest.Stderr {
		r.Stderr = tail(r.Stderr+string(c.Data), maxStderr)
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
	r.keepStart(data, c.Next)
}

// lineEnd reads the line that ends with rest.
func (r *reading) lineEnd(rest []byte) {
	if len(r.line)+len(rest) > maxLine {
		r.skipLine()
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

// keepStart keeps the start of a line.
func (r *reading) keepStart(data []byte, next int64) {
	if len(r.line)+len(data) > maxLine {
		r.skipLine()
	}
	if r.Skip {
		r.mark = next
		return
	}
	r.line = append(r.line, data...)
}

func (r *reading) skipLine() {
	if !r.Skip {
		r.reportLost(fmt.Sprintf("the agent wrote a line of more than %d MiB, which is left out", maxLine>>20))
	}
	r.Skip, r.line = true, nil
}

// trimmed continues after output that was removed. The removed part ends inside a line, so the rest of that line is
// skipped.
func (r *reading) trimmed() {
	r.reportLost("the agent wrote more than is kept while no server read it; the oldest output is gone")
	r.Skip, r.line = true, nil
}

func (r *reading) reportLost(message string) {
	r.events = append(r.events, api.TurnEvent{Type: api.EventStatus, Status: StatusOutputLost, Message: message})
}

// complete reads the output after the last line break if it is a whole line.
func (r *reading) complete(end int64, exit guest.Exit) {
	if len(r.line) > 0 && (json.Valid(r.line) || r.worker.Plain && succeeded(exit)) {
		r.lineEnd(nil)
	}
	r.line, r.mark = nil, end
}

func (r *reading) read(line []byte) {
	if !r.worker.Plain {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			return
		}
	}
	if !utf8.Valid(line) { // databases refuse invalid UTF-8
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if note, ok := parseNote(line); ok {
		r.Note = note
		return
	}
	events, ok := r.agent.Line(line)
	if !ok {
		r.Garbage, _ = Clip(string(line), maxGarbage)
	}
	for i := range events {
		r.Seen = r.Seen || showsWork(events[i].Type)
	}
	r.events = append(r.events, events...)
}

// showsWork reports whether an event proves that the agent has done something.
func showsWork(event string) bool {
	switch event {
	case api.EventText, api.EventTextDelta, api.EventToolCall, api.EventToolResult:
		return true
	}
	return false
}

// parseNote returns the wrapper's note in a line, if the line is one.
func parseNote(line []byte) (string, bool) {
	if len(line) > 64 || !bytes.HasPrefix(line, []byte(`{"berth":`)) {
		return "", false
	}
	var note struct {
		Note string `json:"berth"`
	}
	if json.Unmarshal(line, &note) != nil {
		return "", false
	}
	return note.Note, true
}

// step returns the events since the last step, with a cursor at the end of the last complete line.
func (r *reading) step() Step {
	state, _ := json.Marshal(struct {
		memory
		Agent any `json:"agent,omitempty"`
	}{r.memory, r.agent.State()})
	s := Step{Events: r.events, Cursor: Cursor{Offset: r.mark, State: state}}
	r.events, r.last = nil, r.mark
	return s
}

// tail returns the end of text, at most the given number of bytes, without broken characters.
func tail(text string, most int) string {
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(bytes.ToValidUTF8([]byte(text), nil))
}
