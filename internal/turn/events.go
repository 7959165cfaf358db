package turn

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Event is one event of a turn's log, as it is stored: a JSON text of an api.TurnEvent.
type Event struct {
	Seq  int64 // zero: it is no part of the log
	Data []byte
}

// readSize is about how many bytes of a log are read at once.
const readSize = 1 << 20

// Events yields a turn's events behind a number as they are stored, and ends after the last, turn.finished.
// A reader that is too slow waits for nobody and holds up nobody. When the log is no longer kept, it yields
// a resync and ends.
func (s *Service) Events(ctx context.Context, t store.Turn, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		leave := s.hub.join(t.ID)
		defer leave()
		poll := time.NewTimer(s.Poll)
		defer poll.Stop()
		after, well := after, time.Now()
		for look := true; ; {
			found, news := s.hub.since(t.ID, after)
			for _, data := range found {
				after++
				if !yield(Event{after, data}, nil) || isLast(data) {
					return
				}
			}
			if len(found) > 0 {
				look = false // what comes behind these is told
				continue
			}
			read, over, err := after, false, error(nil)
			if look {
				read, over, err = s.read(ctx, t, after, yield)
			}
			switch {
			case over:
				return
			case err != nil && ctx.Err() == nil && passes(err) && time.Since(well) < patience:
				after = read // the database may be back in a moment
			case err != nil:
				yield(Event{}, err)
				return
			case read > after:
				after = read
				continue
			}
			switch {
			case err != nil:
				poll.Reset(s.Poll)
			case look:
				poll.Reset(s.pause(t.ID))
			}
			select {
			case <-ctx.Done():
				return
			case <-news:
				look = true // unless the news are here
			case <-poll.C:
				look = err != nil || !s.runs(t.ID)
				poll.Reset(s.pause(t.ID))
			}
			if err == nil {
				well = time.Now()
			}
		}
	}
}

// pause is how long a reader waits before it looks by itself. Where this process runs the turn it is told of
// everything, and when that is over.
func (s *Service) pause(turn string) time.Duration {
	if s.runs(turn) {
		return seldom * s.Poll
	}
	return s.Poll
}

const seldom = 20

// patience is how long a reader waits for a database that does not answer.
const patience = 10 * time.Second

func passes(err error) bool { return sandbox.CodeOf(err).Info().Retryable }

// read yields what the database has behind the number, and says how far that goes and whether it is the end.
func (s *Service) read(ctx context.Context, t store.Turn, after int64, yield func(Event, error) bool) (int64, bool, error) {
	parts, err := s.Store.ReadLog(ctx, t.ID, after, readSize)
	if err != nil {
		return after, false, err
	}
	for _, p := range parts {
		if p.First != after+1 {
			return after, false, sandbox.Errorf("read events", api.CodeInternal, "event %d of turn %s is missing", after+1, t.ID)
		}
		for _, data := range p.Events {
			after++
			if !yield(Event{after, data}, nil) || isLast(data) {
				return after, true, nil
			}
		}
	}
	if len(parts) > 0 {
		return after, false, nil
	}
	now, err := s.Store.In(t.Tenant).Turn(ctx, t.ID)
	if err != nil || !now.Finished() {
		return after, false, err
	}
	if after < now.Seq { // the log was there, and is gone
		if more, err := s.Store.ReadLog(ctx, t.ID, after, 1); err != nil || len(more) > 0 {
			return after, false, err
		}
		yield(Event{Data: mustJSON(api.TurnEvent{Type: api.EventResync, TurnID: t.ID, ConversationID: t.Conversation,
			Message: "the events of this turn are no longer kept; read the conversation's messages"})}, nil)
	}
	return after, true, nil
}

// finished is what the last event of every log begins with.
var finished = []byte(`{"type":"` + api.EventTurnFinished + `"`)

func isLast(data []byte) bool { return bytes.HasPrefix(data, finished) }

// mustJSON is an event as it is stored.
func mustJSON(e api.TurnEvent) []byte {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // texts and numbers always marshal; raw parts were checked when they were read
	}
	return data
}

// encode is events as they are stored. One whose raw part is no JSON loses that part.
func encode(events []api.TurnEvent) [][]byte {
	out := make([][]byte, len(events))
	for i, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			e.Raw, e.Input = nil, nil
			data = mustJSON(e)
		}
		out[i] = data
	}
	return out
}
