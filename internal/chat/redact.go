package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/telemetry"
)

// redaction replaces the values of known secrets in a turn's events before they are stored. A secret may be split over
// several deltas: steps are held back while the text of their deltas ends with what could be the beginning of one. Held
// steps are not stored, and neither is the position in the agent's output behind them, so that the next holder of the
// turn reads them again. A nil redaction changes nothing.
type redaction struct {
	secrets *telemetry.Redactor
	held    agent.Step // the steps that are held back, joined
	open    run        // the deltas of held whose text is not decided
}

// run is a series of deltas that continue one text. Other events with a content end it.
type run struct {
	kind, parent string
	at           []int            // the indexes of the deltas in held.Events
	text         []byte           // their text
	from         int              // the secrets that begin before this position of text are known
	found        []telemetry.Span // these secrets
}

// maxHeld bounds the bytes that are held back. Beyond it they are stored as they are.
const maxHeld = 1 << 20

// loadSecrets makes the redaction of the turn know the secrets of its sandbox as they are now. Those that it knew
// before stay: the agent may have them.
func (w *work) loadSecrets(ctx context.Context) error {
	if w.opts.Secrets == nil {
		return nil
	}
	sb, err := w.handle.Record(ctx)
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrDeleted) {
		return nil // its agent prints nothing more
	}
	if err != nil {
		return err
	}
	into := new(telemetry.Redactor)
	if w.redact != nil {
		into = w.redact.secrets
	}
	on, err := w.opts.Secrets(ctx, sb, into)
	if err == nil && on && w.redact == nil {
		w.redact = &redaction{secrets: into}
	}
	return err
}

// steps replaces secrets in the steps of one reading of the agent's output. What an earlier reading held back is read
// again.
func (r *redaction) steps(read iter.Seq2[agent.Step, error]) iter.Seq2[agent.Step, error] {
	if r == nil {
		return read
	}
	return func(yield func(agent.Step, error) bool) {
		r.held, r.open = agent.Step{}, run{}
		for step, err := range read {
			ready := err != nil
			if !ready {
				step, ready = r.take(step)
			}
			if ready && !yield(step, err) {
				return
			}
		}
	}
}

// take adds a step and returns what can be stored, joined. It returns false if all of it is held back.
func (r *redaction) take(step agent.Step) (agent.Step, bool) {
	for i := range step.Events {
		r.add(step.Events[i])
	}
	r.held.Cursor = agent.Cursor{Offset: step.Cursor.Offset, State: r.state(step.Cursor.State)}
	r.held.End = step.End
	if step.End != nil || r.size() > maxHeld {
		r.closeRun(true)
	}
	if len(r.open.at) > 0 {
		return agent.Step{}, false
	}
	ready := r.held
	r.held = agent.Step{}
	return ready, true
}

// rest returns the steps that the last reading held back.
func (r *redaction) rest() agent.Step {
	if r == nil {
		return agent.Step{}
	}
	r.closeRun(true)
	ready := r.held
	r.held = agent.Step{}
	return ready
}

func (r *redaction) size() int { return bytesOf(r.held.Events) }

func (r *redaction) add(e api.TurnEvent) {
	switch e.Type {
	case api.EventTextDelta, api.EventThinkingDelta:
		if e.Type != r.open.kind || e.Parent != r.open.parent {
			r.closeRun(true)
		}
		r.open.kind, r.open.parent = e.Type, e.Parent
		r.open.at = append(r.open.at, len(r.held.Events))
		r.open.text = append(r.open.text, e.Text...)
		e.Raw = r.json(e.Raw)
		r.held.Events = append(r.held.Events, e)
		r.closeRun(false)
		return
	case api.EventUsage, api.EventStatus:
	default:
		r.closeRun(true)
	}
	r.clean(&e)
	r.held.Events = append(r.held.Events, e)
}

// closeRun replaces the secrets in the open run and ends it. Unless last is set, it does nothing if the run ends with
// what could be the beginning of a secret.
func (r *redaction) closeRun(last bool) {
	if len(r.open.at) == 0 {
		return
	}
	found, open := r.secrets.Find(r.open.text[r.open.from:])
	waits := open < len(r.open.text)-r.open.from && !last
	for _, s := range found {
		if !waits || s.Start < open {
			r.open.add(s)
		}
	}
	if waits {
		r.open.from += open
		return
	}
	if len(r.open.found) > 0 {
		r.replace(r.open.found)
		r.held.Events = slices.DeleteFunc(r.held.Events, func(e api.TurnEvent) bool {
			return e.Text == "" && (e.Type == api.EventTextDelta || e.Type == api.EventThinkingDelta)
		})
	}
	r.open = run{}
}

// add adds a secret that begins at a position behind from. It joins secrets that overlap.
func (r *run) add(s telemetry.Span) {
	s.Start, s.End = s.Start+r.from, s.End+r.from
	if last := len(r.found) - 1; last >= 0 && s.Start < r.found[last].End {
		r.found[last].End = max(r.found[last].End, s.End)
		return
	}
	r.found = append(r.found, s)
}

// replace replaces parts of the run's text. The replacement is in the delta with the beginning of the secret. The
// agent's own line of a delta that holds a fragment of a secret is dropped.
func (r *redaction) replace(found []telemetry.Span) {
	start := 0
	for _, i := range r.open.at {
		e := &r.held.Events[i]
		end := start + len(e.Text)
		var text strings.Builder
		at := start
		for _, s := range found {
			if s.End <= start || s.Start >= end {
				continue
			}
			text.Write(r.open.text[at:max(at, s.Start)])
			if s.Start >= start {
				text.WriteString(s.Mark)
			}
			if s.Start < start || s.End > end {
				e.Raw = nil
			}
			at = min(s.End, end)
		}
		text.Write(r.open.text[at:end])
		e.Text = text.String()
		start = end
	}
}

// clean replaces secrets in an event that is not a delta.
func (r *redaction) clean(e *api.TurnEvent) {
	if r == nil {
		return
	}
	e.Text, e.Message, e.Name = r.text(e.Text, e.Cut), r.text(e.Message, true), r.text(e.Name, true)
	e.Input, e.Raw = r.json(e.Input), r.json(e.Raw)
}

// minFragment is the length of the shortest beginning of a secret that is replaced at the end of a text that was cut.
const minFragment = 8

// text replaces secrets in a text. cut says that the text may end within a secret.
func (r *redaction) text(text string, cut bool) string {
	if r == nil || text == "" {
		return text
	}
	found, open := r.secrets.Find([]byte(text))
	if cut && len(text)-open >= minFragment {
		found = append(found, telemetry.Span{Start: open, End: len(text), Mark: telemetry.Redacted})
	}
	if len(found) == 0 {
		return text
	}
	return string(replaceSpans([]byte(text), found))
}

// json replaces secrets in a JSON text. It returns nil if the result is no longer JSON.
func (r *redaction) json(text json.RawMessage) json.RawMessage {
	if r == nil || len(text) == 0 {
		return text
	}
	found, _ := r.secrets.Find(text)
	if len(found) == 0 {
		return text
	}
	if text = replaceSpans(text, found); json.Valid(text) {
		return text
	}
	return nil
}

// state replaces secrets in the state of a runtime. A state that is not JSON without them stays as it is, because the
// turn cannot be continued without it.
func (r *redaction) state(state json.RawMessage) json.RawMessage {
	if clean := r.json(state); clean != nil {
		return clean
	}
	return state
}

func replaceSpans(text []byte, found []telemetry.Span) []byte {
	var out bytes.Buffer
	at := 0
	for _, s := range found {
		out.Write(text[at:max(at, s.Start)])
		out.WriteString(s.Mark)
		at = max(at, s.End)
	}
	out.Write(text[at:])
	return out.Bytes()
}
