package slack

import (
	"context"
	"errors"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// api returns a client for a workspace.
func (s *Service) api(w store.SlackWorkspace, more ...slackgo.Option) *slackgo.Client {
	return s.client(w.Tokens.Bot, more...)
}

func (s *Service) client(token string, more ...slackgo.Option) *slackgo.Client {
	options := []slackgo.Option{slackgo.OptionHTTPClient(s.opts.HTTP)}
	if s.opts.APIURL != "" {
		options = append(options, slackgo.OptionAPIURL(strings.TrimSuffix(s.opts.APIURL, "/")+"/"))
	}
	return slackgo.New(token, append(options, more...)...)
}

// errorCode returns the code of an error that Slack answered; empty for any other error.
func errorCode(err error) string {
	var refused slackgo.SlackErrorResponse
	if errors.As(err, &refused) {
		return refused.Err
	}
	return ""
}

// refusals are errors that no repetition changes: the app may not do this in the workspace any more.
var refusals = map[string]bool{
	"account_inactive": true, "token_revoked": true, "token_expired": true, "invalid_auth": true, "not_authed": true, "team_access_not_granted": true, "org_login_required": true,
}

// refusal returns the code of an error with which Slack refuses the app; empty for any other error.
func refusal(err error) string {
	if code := errorCode(err); refusals[code] {
		return code
	}
	return ""
}

// unreachable are errors about a place that we cannot write to any more.
var unreachable = map[string]bool{
	"channel_not_found": true, "not_in_channel": true, "is_archived": true, "thread_not_found": true, "restricted_action": true, "restricted_action_thread_locked": true,
	"cannot_reply_to_message": true, "messages_tab_disabled": true, "user_is_restricted": true, "no_permission": true, "missing_scope": true,
}

// isLost reports whether answering cannot succeed any more, whatever is tried.
func isLost(err error) bool {
	code := errorCode(err)
	return refusals[code] || unreachable[code]
}

// isUncertain reports whether a call may have had its effect although it returned an error.
func isUncertain(err error) bool {
	var limited *slackgo.RateLimitedError
	return err != nil && errorCode(err) == "" && !errors.As(err, &limited)
}

// passes reports whether an error of Berth passes. A sandbox of another machine is reached by that machine's server,
// which takes the thread once this one has let it go.
func passes(err error) bool {
	code := fault.CodeOf(err)
	return code.Info().Retryable || code == api.CodeWrongHost
}

const (
	callTime  = 30 * time.Second
	callTries = 20
)

// try makes a call that may be repeated, until it succeeds, is refused, or the context ends. It waits as long as Slack
// asks for.
func (s *Service) try(ctx context.Context, call func(ctx context.Context) error) error {
	for n, pause := 0, 250*time.Millisecond; ; n, pause = n+1, min(2*pause, 15*time.Second) {
		err := once(ctx, call)
		wait, again := pauseAfter(err, pause)
		if !again || n >= callTries || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

func once(ctx context.Context, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return call(ctx)
}

// internalErrors are codes of errors on Slack's side, which pass.
var internalErrors = map[string]bool{
	"internal_error": true, "fatal_error": true, "service_unavailable": true, "ratelimited": true, "request_timeout": true, "team_added_to_org": true, "accesslimited": true,
}

// pauseAfter returns how long to wait before a call is repeated, and whether it is to be repeated.
func pauseAfter(err error, pause time.Duration) (time.Duration, bool) {
	var limited *slackgo.RateLimitedError
	switch {
	case err == nil:
		return 0, false
	case errors.As(err, &limited):
		return max(limited.RetryAfter, 100*time.Millisecond), true
	case internalErrors[errorCode(err)]:
		return pause, true
	}
	return pause, errorCode(err) == ""
}
