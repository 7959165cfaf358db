package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
)

// Changes yields the changes of sandboxes, conversations and turns that the key may see. The first event is a reset: list
// what you need then, and apply the events after it. A lost connection is replaced, possibly by one to another server, and
// nothing is missed or repeated; if that is not possible, there is another reset. Heartbeats are not yielded. The sequence
// ends when ctx does, or with an error if the server cannot be reached.
func (c *Client) Changes(ctx context.Context) iter.Seq2[api.ChangeEvent, error] {
	return func(yield func(api.ChangeEvent, error) bool) {
		s := source{c: c, ctx: ctx, patience: maxSilence}
		defer s.disconnect()
		after, failed := "", 0
		for ctx.Err() == nil {
			var event api.ChangeEvent
			id, err := s.nextChange(after, &event)
			switch {
			case err == nil && event.Type != api.EventError:
				after, failed = id, 0
				if event.Type != api.EventHeartbeat && !yield(event, nil) {
					return
				}
				continue
			case err == nil:
				err = event.Error
			}
			s.disconnect()
			if failed++; failed >= c.attempts || !retryable(err) {
				if ctx.Err() == nil {
					yield(api.ChangeEvent{}, ended(ctx, err))
				}
				return
			}
			pause(ctx, min(time.Duration(failed)*time.Second/2, maxWait))
		}
	}
}

// nextChange reads the next event, after it has connected if need be.
func (s *source) nextChange(after string, event *api.ChangeEvent) (id string, err error) {
	if s.body == nil {
		header := http.Header{}
		if after != "" {
			header.Set("Last-Event-ID", after)
		}
		if _, _, err := s.open(call{op: "watch changes", method: http.MethodGet, path: path{"/api/v1/events"}}, header, "", nil); err != nil {
			return "", err
		}
	}
	if id, err = s.next(event); err != nil {
		return "", s.c.unreachable(errors.Join(errors.New("the stream broke off"), err))
	}
	return id, nil
}
