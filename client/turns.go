package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/berthdev/berth/api"
)

// TurnStream is a turn that is being watched. It reads on after a lost connection by itself, from where it
// was, at whichever server answers: no event comes twice, and none is left out. One goroutine may read it.
type TurnStream struct {
	// ConversationID and TurnID name the turn; the latter is known from its first event on.
	ConversationID, TurnID string

	source
	cancel context.CancelFunc
	prompt *call // what began the turn; nil: somebody else did
	sent   []byte
	key    string
	query  url.Values
	onCut  func(error)

	after  int64
	over   error // what Next says from now on
	failed int   // connections in a row that brought nothing
	began  time.Time
}

// A TurnOption changes how a turn is asked for or watched.
type TurnOption func(*TurnStream)

// Queued lets a prompt wait while another turn of the conversation runs. Without it that is refused.
func Queued() TurnOption { return func(t *TurnStream) { t.query.Set("queue", "true") } }

// InSandbox names the sandbox that the prompt is for. A conversation and a sandbox that are not known, with
// UUIDs of the caller's choice, are made.
func InSandbox(id string) TurnOption {
	return func(t *TurnStream) {
		if t.prompt != nil {
			t.prompt.path = path{conversationsPath, t.ConversationID, "sandbox", id}
		}
	}
}

// OnCut is called when the connection was lost, each time before it is made again.
func OnCut(do func(why error)) TurnOption { return func(t *TurnStream) { t.onCut = do } }

// WithRaw adds the agent's own lines to the events.
func WithRaw() TurnOption { return func(t *TurnStream) { t.query.Set("raw", "true") } }

// Prompt asks the conversation's agent to do something, and watches it. Once it returns, the prompt is
// stored and will be answered, whoever watches; Cancel ends the turn. It is asked once, also if an answer is
// lost and asked for again.
func (s Conversations) Prompt(ctx context.Context, id string, want api.Prompt, opts ...TurnOption) (*TurnStream, error) {
	const op = "send prompt"
	body, err := encode(want)
	if err != nil {
		return nil, fmt.Errorf("%s: encode the request: %w", op, err)
	}
	t := s.newStream(ctx, id, "", 0)
	t.prompt = &call{method: http.MethodPost, path: path{conversationsPath, id, "messages"}, body: want}
	t.sent, t.key = body, rand.Text()
	return t.begin(op, opts)
}

// Follow watches a turn from an event on; 0 is the first. It works after the turn's end, as long as its
// events are kept.
func (s Conversations) Follow(ctx context.Context, id, turn string, after int64, opts ...TurnOption) (*TurnStream, error) {
	return s.newStream(ctx, id, turn, after).begin("follow turn", opts)
}

// Cancel asks a turn to end. The last event of its stream tells when it has.
func (s Conversations) Cancel(ctx context.Context, id, turn string) (got api.Turn, err error) {
	_, err = s.c.do(ctx, call{op: "cancel turn", method: http.MethodPost, path: turnPath(id, turn, "cancel")}, &got)
	return got, err
}

func turnPath(id, turn string, more ...string) path {
	return append(path{conversationsPath, id, "turns", turn}, more...)
}

func (s Conversations) newStream(ctx context.Context, id, turn string, after int64) *TurnStream {
	t := &TurnStream{ConversationID: id, TurnID: turn, source: source{c: s.c, patience: silence}, after: after, query: url.Values{}}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

func (t *TurnStream) begin(op string, opts []TurnOption) (*TurnStream, error) {
	for _, opt := range opts {
		opt(t)
	}
	err := t.reach(nil)
	switch {
	case errors.Is(err, errNoMore):
		t.finish(io.EOF)
	case err != nil:
		t.cancel()
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return t, nil
}

// After is the number of the event that was read last; Follow reads on from it.
func (t *TurnStream) After() int64 { return t.after }

// Next returns the next event. After the last one, turn.finished, it returns io.EOF. It does so after a
// resync, too: what the turn said before is not kept any more, and the conversation's messages tell it.
func (t *TurnStream) Next() (api.TurnEvent, error) {
	for t.over == nil {
		var event api.TurnEvent
		id, err := t.next(&event)
		if err == nil {
			var fresh bool
			if fresh, err = t.take(id, event); fresh {
				return event, nil
			}
		}
		if err == nil {
			continue
		}
		t.disconnect()
		if t.ctx.Err() == nil && t.onCut != nil {
			t.onCut(err)
		}
		switch err := t.reach(err); {
		case errors.Is(err, errNoMore):
			t.finish(io.EOF)
		case err != nil:
			t.finish(fmt.Errorf("watch turn: %w", err))
		}
	}
	return api.TurnEvent{}, t.over
}

// Events yields the events to the end; an error is the last.
func (t *TurnStream) Events() iter.Seq2[api.TurnEvent, error] {
	return func(yield func(api.TurnEvent, error) bool) {
		for {
			event, err := t.Next()
			if err == io.EOF || !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Close stops watching. The turn goes on.
func (t *TurnStream) Close() error {
	t.finish(errors.New("watch turn: the stream was closed"))
	return nil
}

func (t *TurnStream) finish(err error) {
	if t.over == nil {
		t.over = err
	}
	t.disconnect()
	t.cancel()
}

// take notes how far the stream is, and says whether the event is a new one.
func (t *TurnStream) take(id string, event api.TurnEvent) (fresh bool, err error) {
	switch {
	case id != "":
		if fresh, err = t.number(id); !fresh {
			return false, err
		}
	case event.Type == api.EventTurnError: // of this connection, not of the turn
		return false, fmt.Errorf("%s (%s)", event.Message, event.Code)
	}
	if event.Type == api.EventTurnFinished || event.Type == api.EventResync {
		t.finish(io.EOF)
	}
	return true, nil
}

// number checks that an event is the one behind the last.
func (t *TurnStream) number(id string) (fresh bool, err error) {
	turn, seq, err := api.ParseEventID(id)
	switch {
	case err != nil:
		return false, err
	case t.TurnID != "" && turn != t.TurnID:
		return false, fmt.Errorf("event %s is of another turn than %s", id, t.TurnID)
	case seq <= t.after: // a server may begin again a little before where we were
		return false, nil
	case seq > t.after+1:
		return false, fmt.Errorf("event %d of turn %s is missing", t.after+1, turn)
	}
	t.TurnID, t.after, t.failed = turn, seq, 0
	return true, nil
}

// reach connects; why is what broke the connection before. A server that is just restarting takes seconds,
// and one whose streams are cut now and then is not given up for it.
func (t *TurnStream) reach(why error) error {
	if why != nil && time.Since(t.began) > mostWait {
		t.failed = 0
	}
	var got reply
	for {
		if why != nil {
			t.failed++
			switch {
			case t.ctx.Err() != nil:
				return context.Cause(t.ctx)
			case t.failed >= t.c.attempts || !pause(t.ctx, got.wait(t.failed)):
				return t.brokenOff(why)
			}
		}
		t.began = time.Now()
		if got, why = t.dial(); why == nil || !retryable(why) {
			return why
		}
	}
}

// brokenOff is why the turn cannot be watched any longer.
func (t *TurnStream) brokenOff(why error) error {
	var p *api.Problem
	if errors.As(why, &p) {
		return ended(t.ctx, why)
	}
	return t.c.unreachable(fmt.Errorf("the stream broke off: %w", why))
}

// dial connects once: behind the last event of a turn that is known, else with the prompt, which under the
// same key joins the turn that it began.
func (t *TurnStream) dial() (reply, error) {
	if t.TurnID != "" {
		header := http.Header{}
		if t.after > 0 {
			header.Set("Last-Event-ID", api.EventID(t.TurnID, t.after))
		}
		got, _, err := t.open(call{method: http.MethodGet, path: turnPath(t.ConversationID, t.TurnID, "events"), query: t.watching()}, header, "", nil)
		return got, err
	}
	ask := *t.prompt
	ask.query = t.query
	got, head, err := t.open(ask, nil, t.key, t.sent)
	if err == nil {
		t.TurnID = head.Get(api.HeaderTurnID)
	}
	return got, err
}

// watching is the query without what concerns the prompt alone.
func (t *TurnStream) watching() url.Values {
	q := maps.Clone(t.query)
	q.Del("queue")
	return q
}
