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

// TurnStream reads the events of a turn. After a lost connection it connects again, possibly to another server, and
// continues after the last event: each event is returned exactly once. Only one goroutine may use a TurnStream.
type TurnStream struct {
	// ConversationID and TurnID name the turn. TurnID is set once the server has answered.
	ConversationID, TurnID string

	source
	cancel context.CancelFunc
	prompt *call // the request that started the turn; nil: another client did
	sent   []byte
	key    string
	query  url.Values
	onCut  func(error)

	after  int64
	over   error // the error of all further calls of Next; nil: the stream continues
	failed int   // number of attempts since the last new event
	began  time.Time
}

// A TurnOption configures a prompt or a TurnStream.
type TurnOption func(*TurnStream)

// Queued lets a prompt wait while another turn of the conversation runs. Without Queued, such a prompt is refused.
func Queued() TurnOption { return func(t *TurnStream) { t.query.Set("queue", "true") } }

// InSandbox sets the sandbox that the prompt is for. If the conversation or the sandbox does not exist, it is created
// with the given id, a UUID.
func InSandbox(id string) TurnOption {
	return func(t *TurnStream) {
		if t.prompt != nil {
			t.prompt.path = path{conversationsPath, t.ConversationID, "sandbox", id}
		}
	}
}

// OnCut calls do each time the connection was lost, before the stream connects again.
func OnCut(do func(why error)) TurnOption { return func(t *TurnStream) { t.onCut = do } }

// WithRaw adds the agent's own lines of output to the events.
func WithRaw() TurnOption { return func(t *TurnStream) { t.query.Set("raw", "true") } }

// Prompt sends a prompt to the conversation's agent and returns a stream of the turn's events. When it returns, the
// prompt is stored and will be answered, even if the client disconnects; Cancel ends the turn. The prompt is stored
// once, even if the request is repeated. Its attachments are sent in the same request, so they are held in memory until
// the server has answered.
func (s Conversations) Prompt(ctx context.Context, id string, want api.Prompt, opts ...TurnOption) (*TurnStream, error) {
	return s.newStream(ctx, id, "", 0).send(path{conversationsPath, id, "messages"}, want, opts)
}

// send sends the prompt that starts the turn.
func (t *TurnStream) send(to path, want api.Prompt, opts []TurnOption) (*TurnStream, error) {
	const op = "send prompt"
	body, err := encode(want)
	if err != nil {
		t.cancel()
		return nil, fmt.Errorf("%s: encode the request: %w", op, err)
	}
	t.prompt = &call{method: http.MethodPost, path: to, body: want}
	t.sent, t.key = body, rand.Text()
	t.patience += time.Duration(len(body)/leastRate) * time.Second
	return t.begin(op, opts)
}

// leastRate is the rate in bytes per second at which the server accepts a large prompt.
const leastRate = 256 << 10

// Follow returns a stream of the events of a turn with a number greater than after. It also works after the end of
// the turn, as long as the events are kept.
func (s Conversations) Follow(ctx context.Context, id, turn string, after int64, opts ...TurnOption) (*TurnStream, error) {
	return s.newStream(ctx, id, turn, after).begin("follow turn", opts)
}

// Cancel asks a turn to end. The turn has ended when its last event, turn.finished, arrives.
func (s Conversations) Cancel(ctx context.Context, id, turn string) (got api.Turn, err error) {
	_, err = s.c.do(ctx, call{op: "cancel turn", method: http.MethodPost, path: turnPath(id, turn, "cancel")}, &got)
	return got, err
}

func turnPath(id, turn string, more ...string) path {
	return append(path{conversationsPath, id, "turns", turn}, more...)
}

func (s Conversations) newStream(ctx context.Context, id, turn string, after int64) *TurnStream {
	t := &TurnStream{ConversationID: id, TurnID: turn, source: source{c: s.c, patience: maxSilence}, after: after, query: url.Values{}}
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

// After returns the number of the last event that was read. Follow continues after it.
func (t *TurnStream) After() int64 { return t.after }

// Next returns the next event. After turn.finished, the last event, it returns io.EOF. It also returns io.EOF after a
// resync: the turn's events are no longer kept, and the conversation's messages have its content.
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

// Events yields all further events. An error ends the sequence.
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

// Close ends the stream. The turn continues.
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

// take records the position of the stream and reports whether the event is new.
func (t *TurnStream) take(id string, event api.TurnEvent) (fresh bool, err error) {
	switch {
	case id != "":
		if fresh, err = t.number(id); !fresh {
			return false, err
		}
	case event.Type == api.EventTurnError: // an error of this connection, not of the turn
		return false, fmt.Errorf("%s (%s)", event.Message, event.Code)
	}
	if event.Type == api.EventTurnFinished || event.Type == api.EventResync {
		t.finish(io.EOF)
	}
	return true, nil
}

// number checks that an event directly follows the last one, and records its number. It reports false for an event
// that was read before.
func (t *TurnStream) number(id string) (fresh bool, err error) {
	turn, seq, err := api.ParseEventID(id)
	switch {
	case err != nil:
		return false, err
	case t.TurnID != "" && turn != t.TurnID:
		return false, fmt.Errorf("event %s is of another turn than %s", id, t.TurnID)
	case seq <= t.after: // a server may send some earlier events again
		return false, nil
	case seq > t.after+1:
		return false, fmt.Errorf("event %d of turn %s is missing", t.after+1, turn)
	}
	t.TurnID, t.after, t.failed = turn, seq, 0
	return true, nil
}

// reach connects, with several attempts, because a restarting server needs some seconds. why is the error that ended
// the previous connection; nil: there was none. If that connection lasted longer than maxWait, the count of attempts
// starts again, so that a long stream survives many cuts.
func (t *TurnStream) reach(why error) error {
	if why != nil && time.Since(t.began) > maxWait {
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

// brokenOff returns the error for a stream that cannot be continued.
func (t *TurnStream) brokenOff(why error) error {
	var p *api.Problem
	if errors.As(why, &p) {
		return ended(t.ctx, why)
	}
	return t.c.unreachable(fmt.Errorf("the stream broke off: %w", why))
}

// dial connects once. If the turn is known, it requests the events after the last one. Otherwise it sends the prompt;
// a prompt that is sent again with the same key joins the turn that it started.
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
		if t.ConversationID == "" { // the prompt named a thread
			t.ConversationID = head.Get(api.HeaderConversationID)
		}
	}
	return got, err
}

// watching returns the query without the parameters of prompts.
func (t *TurnStream) watching() url.Values {
	q := maps.Clone(t.query)
	q.Del("queue")
	return q
}
