package slack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	slackgo "github.com/slack-go/slack"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// Connect checks the tokens of an app and connects its workspace to a tenant.
func (s *Service) Connect(ctx context.Context, w store.SlackWorkspace) (store.SlackWorkspace, error) {
	if err := checkTokens(w.Tokens); err != nil {
		return w, err
	}
	found, _, err := s.ask(ctx, w.Tokens)
	if err != nil {
		return w, err
	}
	w.Team, w.Name, w.URL, w.BotUser, w.Bot = found.TeamID, found.Team, found.URL, found.UserID, found.BotID
	if w, err = s.slack.Connect(ctx, w); err == nil {
		s.nudge()
	}
	return w, err
}

// checkTokens checks the form of tokens.
func checkTokens(t store.SlackTokens) error {
	e := func(format string, args ...any) error {
		err := fault.Errorf("check tokens", api.CodeInvalidRequest, format, args...)
		err.Hint = "'berth slack manifest' prints an app for Slack; its page shows the tokens once it is installed."
		return err
	}
	switch {
	case !strings.HasPrefix(t.Bot, "xoxb-"):
		return e("the bot token does not begin with xoxb-")
	case t.App == "" && t.Signing == "":
		return e("there is neither an app token, for Socket Mode, nor a signing secret, for the Events API")
	case t.App != "" && !strings.HasPrefix(t.App, "xapp-"):
		return e("the app token does not begin with xapp-")
	}
	return nil
}

// ask asks Slack about tokens. It returns the scopes that the app lacks.
func (s *Service) ask(ctx context.Context, t store.SlackTokens) (found *slackgo.AuthTestResponse, missing []string, err error) {
	var scopes string
	seen := slackgo.OptionOnResponseHeaders(func(_ string, h http.Header) { scopes = h.Get("X-OAuth-Scopes") })
	err = once(ctx, func(ctx context.Context) (err error) {
		found, err = s.client(t.Bot, seen).AuthTestContext(ctx)
		return err
	})
	if err != nil {
		return nil, nil, slackError("the bot token", err)
	}
	has := strings.Split(scopes, ",")
	for _, scope := range api.SlackScopes {
		if !slices.ContainsFunc(has, func(h string) bool { return strings.TrimSpace(h) == scope }) {
			missing = append(missing, scope)
		}
	}
	if t.App == "" {
		return found, missing, nil
	}
	err = once(ctx, func(ctx context.Context) error {
		_, _, err := s.client(t.Bot, slackgo.OptionAppLevelToken(t.App)).StartSocketModeContext(ctx)
		return err
	})
	if err != nil {
		return nil, nil, slackError("the app token", err)
	}
	return found, missing, nil
}

// slackError explains an error of Slack.
func slackError(what string, err error) error {
	if code := errorCode(err); code != "" {
		e := fault.Errorf("ask Slack", api.CodeInvalidRequest, "Slack refuses %s: %s", what, code)
		e.Hint = "Copy it again from the app's page. A bot token changes when the app is installed again."
		return e
	}
	return fault.Errorf("ask Slack", api.CodeSlackUnavailable, "Slack does not answer: %w", err)
}

// Report is what a check of a workspace found.
type Report struct {
	Workspace store.SlackWorkspace
	Connected bool     // this server has a connection of Socket Mode
	Missing   []string // scopes that the app lacks
	Problem   string   // empty: all is well
}

// Check asks Slack whether the app works in a workspace of a tenant.
func (s *Service) Check(ctx context.Context, tenant store.TenantID, team string) (r Report, err error) {
	w, err := s.slack.Workspace(ctx, team)
	if err == nil && w.Tenant != tenant {
		err = fault.Errorf("check workspace", api.CodeNotFound, "there is no Slack workspace %s", team)
	}
	if err != nil {
		return r, err
	}
	r.Workspace = w
	if w.Problem != nil {
		r.Problem = w.Problem.Error()
		return r, nil
	}
	_, r.Missing, err = s.ask(ctx, w.Tokens)
	switch {
	case fault.CodeOf(err) == api.CodeInvalidRequest:
		r.Problem = sentence(err)
		return r, nil
	case err != nil:
		return r, err
	case len(r.Missing) > 0:
		r.Problem = fmt.Sprintf("the app lacks %s: update its manifest and install it again", strings.Join(r.Missing, ", "))
	}
	if w.Failure != "" {
		if err := s.slack.SetFailure(ctx, team, ""); err != nil {
			return r, err
		}
		s.nudge()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Connected = s.sockets[team] != nil
	return r, nil
}

// Disconnect removes a workspace from its tenant.
func (s *Service) Disconnect(ctx context.Context, tenant store.TenantID, team string) error {
	err := s.slack.Disconnect(ctx, tenant, team)
	if err == nil {
		s.nudge()
		s.wake()
	}
	return err
}

// List returns the workspaces of a tenant.
func (s *Service) List(ctx context.Context, tenant store.TenantID) ([]store.SlackWorkspace, error) {
	return s.slack.WorkspacesOf(ctx, tenant)
}
