package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Event is an event of a turn's log in its stored form: the JSON text of an api.TurnEvent.
type Event struct {
	Seq  int64 // zero: the event is not in the log
	Data []byte
}

// readSize is the approximate number of bytes of a log that one query reads.
const readSize = 1 << 20

// Events yields a turn's events after a number as they are stored, and ends after the last event, turn.finished. A
// slow reader delays neither the turn nor other readers. If the log was removed, Events yields a resync event and
// ends.
func (s *Service) Events(ctx context.Context, t store.Turn, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		leave := s.hub.join(t.ID)
		defer leave()
		poll := time.NewTimer(s.opts.Poll)
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
				look = false // the hub will announce the next events
				continue
			}
			read, over, err := after, false, error(nil)
			if look {
				read, over, err = s.read(ctx, t, after, yield)
			}
			switch {
			case over:
				return
			case err != nil && ctx.Err() == nil && isTemporary(err) && time.Since(well) < patience:
				after = read // the database may recover soon
			case err != nil:
				yield(Event{}, err)
				return
			case read > after:
				after = read
				continue
			}
			switch {
			case err != nil:
				poll.Reset(s.opts.Poll)
			case look:
				poll.Reset(s.pause(t.ID))
			}
			select {
			case <-ctx.Done():
				return
			case <-news:
				look = true // read the database unless the hub has the events
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

// pause returns the time that a reader waits before it reads the database. It is longer if this process runs the turn,
// because the hub then announces each event and the end.
func (s *Service) pause(turn string) time.Duration {
	if s.runs(turn) {
		return pollFactor * s.opts.Poll
	}
	return s.opts.Poll
}

const pollFactor = 20

// patience is the time that a reader waits for a database that does not answer.
const patience = 10 * time.Second

func isTemporary(err error) bool { return fault.CodeOf(err).Info().Retryable }

// read yields the stored events after a number. It returns the number of the last event and whether the turn's events
// have ended.
func (s *Service) read(ctx context.Context, t store.Turn, after int64, yield func(Event, error) bool) (int64, bool, error) {
	parts, err := s.opts.Store.TurnRuns().ReadLog(ctx, t.ID, after, readSize)
	if err != nil {
		return after, false, err
	}
	for _, p := range parts {
		if p.First != after+1 {
			return after, false, fault.Errorf("read events", api.CodeInternal, "event %d of turn %s is missing", after+1, t.ID)
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
	now, err := s.opts.Store.In(t.Tenant).Turns().Get(ctx, t.ID)
	if err != nil || !now.Finished() {
		return after, false, err
	}
	if after < now.Seq { // the log existed and was removed
		if more, err := s.opts.Store.TurnRuns().ReadLog(ctx, t.ID, after, 1); err != nil || len(more) > 0 {
			return after, false, err
		}
		yield(Event{Data: mustJSON(api.TurnEvent{Type: api.EventResync, TurnID: t.ID, ConversationID: sandbox.PublicID(t.Conversation),
			Message: "the events of this turn are no longer kept; read the conversation's messages"})}, nil)
	}
	return after, true, nil
}

// finishedPrefix is the start of the JSON text of the last event of every log.
var finishedPrefix = []byte(`{"type":"` + api.EventTurnFinished + `"`)

func isLast(data []byte) bool { return bytes.HasPrefix(data, finishedPrefix) }

// mustJSON returns an event in its stored form.
func mustJSON(e api.TurnEvent) []byte {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // texts and numbers always marshal; raw parts were checked when they were read
	}
	return data
}

// encode returns events in their stored form. If an event's raw part is not valid JSON, encode drops that part and the
// input.
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
