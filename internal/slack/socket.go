package slack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"sync"
	"time"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// socketOf is the connection of Socket Mode to a workspace.
type socketOf struct {
	token  string
	cancel context.CancelFunc
}

// nudge makes Run look at the list of workspaces at once.
func (s *Service) nudge() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// connectAll opens and closes connections until there is one for each workspace that uses Socket Mode.
func (s *Service) connectAll(ctx context.Context, work *sync.WaitGroup) {
	list, err := s.slack.Workspaces(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.opts.Log.WarnContext(ctx, "list Slack workspaces", "error", err)
		}
		return
	}
	s.idle = len(list) == 0
	want := map[string]store.SlackWorkspace{}
	for _, w := range list {
		if w.Problem == nil && w.Failure == "" && w.Tokens.App != "" {
			want[w.Team] = w
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for team, k := range s.sockets {
		if want[team].Tokens.App != k.token {
			k.cancel()
			delete(s.sockets, team)
		}
	}
	for team, w := range want {
		if s.sockets[team] != nil {
			continue
		}
		inner, cancel := context.WithCancel(ctx)
		k := &socketOf{w.Tokens.App, cancel}
		s.sockets[team] = k
		work.Go(func() { s.runSocket(inner, w) })
	}
}

const (
	firstPause = time.Second
	mostPause  = time.Minute
)

// runSocket receives the events of a workspace until the context ends. Slack closes each connection after some hours;
// the client makes a new one.
func (s *Service) runSocket(ctx context.Context, w store.SlackWorkspace) {
	quiet := log.New(io.Discard, "", 0)
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, mostPause) {
		inner, cancel := context.WithCancel(ctx)
		c := socketmode.New(s.api(w, slackgo.OptionAppLevelToken(w.Tokens.App), slackgo.OptionLog(quiet)), socketmode.OptionLog(quiet))
		ended := make(chan error, 1)
		go func() { ended <- c.RunContext(inner) }()
		began := time.Now()
		err := s.readSocket(inner, c, w, ended)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if refusal(err) != "" {
			s.opts.Log.ErrorContext(ctx, "Slack refuses the connection", "team", w.Team, "error", err)
			s.fail(ctx, w.Team, err)
			return
		}
		s.opts.Log.WarnContext(ctx, "connection to Slack ended", "team", w.Team, "error", err)
		if time.Since(began) > mostPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// fail records that Slack refuses the app.
func (s *Service) fail(ctx context.Context, team string, cause error) {
	if err := s.slack.SetFailure(ctx, team, cause.Error()); err != nil {
		s.opts.Log.WarnContext(ctx, "record failure of workspace", "team", team, "error", err)
	}
}

// readSocket handles what arrives on a connection. It returns when the client has given up.
func (s *Service) readSocket(ctx context.Context, c *socketmode.Client, w store.SlackWorkspace, ended <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return err
		case e := <-c.Events:
			q := e.Request
			if bad, ok := e.Data.(*socketmode.ErrorBadMessage); ok { // of a form that the client does not know
				q = new(socketmode.Request)
				if err := json.Unmarshal(bad.Message, q); err != nil {
					continue
				}
			}
			if q != nil && q.EnvelopeID != "" {
				s.handle(ctx, c, w, *q)
			}
		}
	}
}

// handle records an envelope and then acknowledges it. Without an acknowledgement Slack sends it again. An app has one
// token for all workspaces that it is installed in, so that the envelope may be of another one than w.
func (s *Service) handle(ctx context.Context, c *socketmode.Client, w store.SlackWorkspace, q socketmode.Request) {
	work, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	var err error
	id := ""
	switch q.Type {
	case socketmode.RequestTypeInteractive:
		var b clicked
		if json.Unmarshal(q.Payload, &b) != nil {
			break
		}
		if err = s.mayName(work, w, b.Team.ID); err == nil {
			err = s.click(work, q.Payload)
		}
	case socketmode.RequestTypeEventsAPI:
		var cb callback
		if json.Unmarshal(q.Payload, &cb) != nil {
			break
		}
		id = cb.EventID
		if err = s.mayName(work, w, cb.Team); err == nil {
			err = s.receive(work, cb)
		}
	}
	if errors.Is(err, fault.ErrNotFound) {
		s.opts.Log.WarnContext(ctx, "ignore event of a Slack workspace that is not connected with this app", "event_id", id)
	} else if err != nil {
		s.opts.Log.WarnContext(ctx, "record event of Slack; it will be sent again", "event_id", id, "error", err)
		return
	}
	if err := c.AckCtx(ctx, q.EnvelopeID, nil); err != nil {
		s.opts.Log.WarnContext(ctx, "acknowledge event of Slack", "event_id", id, "error", err)
		return
	}
	s.at("slack-acked", id)
}

// mayName returns ErrNotFound unless a workspace that an event names is connected with the app of the connection's one.
func (s *Service) mayName(ctx context.Context, w store.SlackWorkspace, team string) error {
	if team == w.Team {
		return nil
	}
	named, err := s.slack.Workspace(ctx, team)
	if err == nil && (named.Problem != nil || named.Tokens.App != w.Tokens.App) {
		err = fault.Errorf("find workspace", api.CodeNotFound, "the Slack workspace %s is connected with another app", team)
	}
	return err
}

// ackTime is the time to record an event. Slack waits for three seconds.
const ackTime = 2500 * time.Millisecond
