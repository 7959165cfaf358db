// Package events has the stream of a tenant's changes, which clients watch in the place of polling.
package events

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/httpapi/stream"
	"github.com/berthdev/berth/internal/readahead"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// beat is the interval of heartbeats on a silent stream. Each has a new position, so that a client that was away for a
// moment need not list anew, however long nothing happened before.
const beat = 15 * time.Second

type handlers struct {
	*access.Sandboxes
	feed   *feed
	log    store.ChangeLog
	ending context.Context
}

// Add adds the routes. Streams end with ending.
func Add(s *rest.Spec, box *access.Sandboxes, ending context.Context) {
	log := store.NewChangeLog(box.Store)
	a := &handlers{Sandboxes: box, feed: newFeed(log), log: log, ending: ending}
	s.ServeRaw(rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: "/api/v1/events", Name: "watch-changes", Scope: api.ScopeRead, Timeout: exchange.Unlimited},
		Tag:   "Events", Summary: "Stream changes of sandboxes, conversations and turns",
		Description: "Streams the changes that the key may see, whichever server makes them. The first event is reset: then list what you need, and apply the events after it. " +
			"To continue after a lost connection, send the id of the last event as Last-Event-ID or after. If the changes since then are no longer kept, the first event is reset again.",
	}, "text/event-stream", a.watch, rest.Streams[api.ChangeEvent](s, api.ChangeEvents), rest.InQuery("after", "string", "Continue after the event with this id"))
}

// item is one event of a stream with the position after it.
type item struct {
	api.ChangeEvent
	at store.LogPosition
}

func (a *handlers) watch(w http.ResponseWriter, r *http.Request) {
	err := rest.ReadQuery(r, "after")
	var from *store.LogPosition
	if err == nil {
		from, err = sentPosition(r)
	}
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := stream.NewWriter(w)
	defer out.Done()
	out.Comment()
	if out.Flush() != nil {
		return
	}
	pieces := readahead.Read(ctx, a.changes(ctx, a.In(ctx), from), func(item) int { return 256 })
	stream.Relay(ctx, a.ending, out, pieces, func(p readahead.Piece[item]) (last bool, err error) {
		if p.Err != nil {
			problem := exchange.ProblemOf(ctx, p.Err).Problem
			return true, out.Add("", api.ChangeEvent{Type: api.EventError, Error: &problem})
		}
		return false, out.Add(eventID(p.Value.at), p.Value.ChangeEvent)
	})
}

// changes yields the events after a position; nil: from now on. It reads at the speed of its reader. A reader that is too
// slow for the log gets a reset.
func (a *handlers) changes(ctx context.Context, scope store.Scope, from *store.LogPosition) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		news, leave := a.feed.join(scope.Tenant())
		defer leave()
		tick := time.NewTicker(beat)
		defer tick.Stop()
		var at store.LogPosition
		var err error
		if from != nil {
			at = *from
		} else if at, err = a.log.End(ctx); err != nil || !yield(reset("the stream begins here", at), nil) {
			yieldError(err, yield)
			return
		}
		for beating := false; ; {
			changes, next, err := a.log.Read(ctx, scope, at)
			if errors.Is(err, store.ErrTooFarBehind) {
				changes, err = nil, nil
				if !yield(reset(store.ErrTooFarBehind.Error(), next), nil) {
					return
				}
			}
			if err != nil {
				yieldError(err, yield)
				return
			}
			at = next
			for _, c := range changes {
				if !yield(item{eventOf(c), c.Position}, nil) {
					return
				}
			}
			if beating && len(changes) == 0 && !yield(item{api.ChangeEvent{Type: api.EventHeartbeat}, at}, nil) {
				return
			}
			beating = false
			select {
			case <-ctx.Done():
				return
			case <-news:
			case <-tick.C:
				beating = true
			}
		}
	}
}

func yieldError(err error, yield func(item, error) bool) {
	if err != nil {
		yield(item{}, err)
	}
}

func reset(why string, at store.LogPosition) item {
	return item{api.ChangeEvent{Type: api.EventReset, Message: why}, at}
}

func eventOf(c store.LoggedChange) api.ChangeEvent {
	e := api.ChangeEvent{Type: c.Kind, ID: sandbox.PublicID(c.ID), Deleted: c.Deleted, At: &c.At}
	switch c.Kind {
	case api.EventSandbox:
		e.State = c.State
	case api.EventConversation:
		e.SandboxID = sandbox.PublicID(c.Sandbox)
	case api.EventTurn:
		if c.State == store.TurnFinishing {
			c.State = api.TurnRunning
		}
		e.Status, e.SandboxID, e.ConversationID = c.State, sandbox.PublicID(c.Sandbox), sandbox.PublicID(c.Conversation)
	}
	return e
}

const idForm = "%d-%d-%d-%d"

func eventID(p store.LogPosition) string {
	return fmt.Sprintf(idForm, p.From, p.To, p.Seq, p.At.UnixMilli())
}

// sentPosition returns the position after the last event that the client has read, or nil. As in other streams,
// Last-Event-ID takes precedence.
func sentPosition(r *http.Request) (*store.LogPosition, error) {
	where, text := "header.Last-Event-ID", r.Header.Get("Last-Event-ID")
	if text == "" {
		where, text = "query.after", r.URL.Query().Get("after")
	}
	if text == "" {
		return nil, nil
	}
	var p store.LogPosition
	var at int64
	if _, err := fmt.Sscanf(text, idForm, &p.From, &p.To, &p.Seq, &at); err == nil {
		p.At = time.UnixMilli(at)
		if eventID(p) == text && p.From >= 0 && p.To >= p.From && p.Seq >= 0 {
			return &p, nil
		}
	}
	return nil, exchange.InvalidField(where, "expected the id of an event of this stream")
}
