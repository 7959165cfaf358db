package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// stream writes server-sent events and applies the faults of a step. After an error it writes nothing more.
type stream struct {
	w        http.ResponseWriter
	done     <-chan struct{}
	pace     time.Duration
	chunk    int
	cut      int
	errorAt  int
	holdAt   int
	hold     func() error
	n        int
	err      error
	streamed bool
}

func (s *Server) open(w http.ResponseWriter, r *http.Request, step *Step, key string) *stream {
	to := &stream{w: w, done: r.Context().Done(), pace: step.Pace, chunk: 24}
	if step.Chunk > 0 {
		to.chunk = step.Chunk
	}
	if step.Hold != "" && step.HoldAt > 0 {
		to.holdAt, to.hold = step.HoldAt, func() error { return s.wait(r.Context().Done(), step.Hold) }
	}
	if (step.Cut > 0 || step.StreamAt > 0) && s.applies(key+"|stream", step.Faults) {
		to.cut, to.errorAt = step.Cut, step.StreamAt
	}
	return to
}

// event sends one event; its name may be empty.
func (t *stream) event(name string, v any) {
	if t.applyFaults(); t.err != nil {
		return
	}
	t.n++
	data, err := json.Marshal(v)
	if err != nil {
		t.err = err
		return
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	t.raw(fmt.Sprintf("%sdata: %s\n\n", name, data))
}

// applyFaults applies the hold or fault that is set before the next event.
func (t *stream) applyFaults() {
	if t.err == nil {
		select {
		case <-t.done:
			t.err = errLeft
		default:
		}
	}
	switch {
	case t.err != nil:
	case t.errorAt > 0 && t.n >= t.errorAt:
		t.raw("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n")
		t.err = errors.New("an error in the stream")
	case t.cut > 0 && t.n >= t.cut:
		t.err = errors.New("the connection was cut")
		panic(http.ErrAbortHandler)
	case t.holdAt > 0 && t.n == t.holdAt:
		t.err = t.hold()
	}
}

func (t *stream) raw(s string) {
	if t.err != nil {
		return
	}
	if !t.streamed {
		t.streamed = true
		t.w.Header().Set("Content-Type", "text/event-stream")
		t.w.Header().Set("Cache-Control", "no-cache")
	}
	if _, t.err = io.WriteString(t.w, s); t.err == nil {
		t.err = http.NewResponseController(t.w).Flush()
	}
}

// pieces splits a text into deltas and sends them with pauses.
func (t *stream) pieces(s string, send func(string)) {
	runes := []rune(s)
	for i := 0; i < len(runes); i += t.chunk {
		if i > 0 && t.pace > 0 {
			select {
			case <-time.After(t.pace):
			case <-t.done:
				return
			}
		}
		send(string(runes[i:min(i+t.chunk, len(runes))]))
	}
}
