package slack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"

	slackgo "github.com/slack-go/slack"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// maxBody is the greatest size of a request of Slack.
const maxBody = 1 << 20

// ServeEvents is the address of the Events API and of buttons. It trusts nothing but the signature, which it checks
// with the secret of the workspace that the request names.
func (s *Service) ServeEvents(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), ackTime)
	defer cancel()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var cb callback
	payload := body
	if kind == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("payload") == "" {
			http.Error(w, "not a payload of Slack", http.StatusBadRequest)
			return
		}
		payload = []byte(form.Get("payload"))
		var c clicked
		if err := json.Unmarshal(payload, &c); err == nil {
			cb = callback{Type: "interactive", Team: c.Team.ID}
		}
	} else if err := json.Unmarshal(body, &cb); err != nil {
		http.Error(w, "not an event of Slack", http.StatusBadRequest)
		return
	}
	if cb.Type == "url_verification" {
		s.verifyURL(ctx, w, r, body, cb)
		return
	}
	team, err := s.slack.Workspace(ctx, cb.Team)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		http.Error(w, "this Slack workspace is not connected", http.StatusUnauthorized)
		return
	case err != nil:
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		return
	case !signed(r.Header, body, team):
		http.Error(w, "the signature does not fit", http.StatusUnauthorized)
		return
	}
	switch cb.Type {
	case "interactive":
		err = s.click(ctx, payload)
	case "event_callback":
		err = s.receive(ctx, cb)
	}
	if err != nil {
		s.opts.Log.WarnContext(ctx, "record event of Slack; it will be sent again", "event_id", cb.EventID, "error", err)
		http.Error(w, "the event could not be recorded", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	s.at("slack-acked", cb.EventID)
}

// signed reports whether a request has the signature of a workspace's app, and is at most five minutes old.
func signed(h http.Header, body []byte, w store.SlackWorkspace) bool {
	if w.Problem != nil || w.Tokens.Signing == "" {
		return false
	}
	v, err := slackgo.NewSecretsVerifier(h, w.Tokens.Signing)
	if err != nil {
		return false
	}
	_, _ = v.Write(body)
	return v.Ensure() == nil
}

// verifyURL answers the challenge with which Slack checks a new address. It names no workspace, so that any signature of
// a connected app is good.
func (s *Service) verifyURL(ctx context.Context, w http.ResponseWriter, r *http.Request, body []byte, cb callback) {
	list, err := s.slack.Workspaces(ctx)
	if err != nil {
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		return
	}
	for _, team := range list {
		if signed(r.Header, body, team) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = io.WriteString(w, clip(cb.Challenge, 200))
			return
		}
	}
	http.Error(w, "the signature does not fit", http.StatusUnauthorized)
}
