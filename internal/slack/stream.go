package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"
)

// An answer is streamed where Slack allows it: text is appended to it as the agent writes, and calls of tools are its
// tasks. At its end the stream is stopped and edited once, so that a complete answer looks the same however it was made.

// streamless are refusals of streams by a whole workspace. Any other one is about the channel.
var streamless = map[string]bool{"unknown_method": true, "method_deprecated": true, "feature_not_enabled": true, "not_allowed_token_type": true}

// mayStream reports whether Slack has not refused streams in the place of the answer.
func (a *answer) mayStream() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.noStreams[a.r.Team] && !a.noStreams[a.r.Team+"/"+a.r.Channel]
}

// streamRefused remembers, as long as this process lives, that Slack refuses streams.
func (a *answer) streamRefused(ctx context.Context, code string) {
	a.opts.Log.InfoContext(ctx, "Slack refuses streams; answers are edited", "team", a.r.Team, "channel", a.r.Channel, "error", code)
	a.mu.Lock()
	defer a.mu.Unlock()
	if streamless[code] {
		a.noStreams[a.r.Team] = true
		return
	}
	if len(a.noStreams) > 10_000 {
		clear(a.noStreams)
	}
	a.noStreams[a.r.Team+"/"+a.r.Channel] = true
}

// startStream posts the beginning of a stream.
func (a *answer) startStream(ctx context.Context) (ts string, err error) {
	_, ts, err = a.web.StartStreamContext(ctx, a.r.Channel,
		slackgo.MsgOptionTS(a.r.ThreadTS), slackgo.MsgOptionRecipientTeamID(a.r.Team), slackgo.MsgOptionRecipientUserID(a.q.User),
		slackgo.MsgOptionTaskDisplayMode(slackgo.TaskDisplayModeTimeline),
		slackgo.MsgOptionChunks(slackgo.NewBlocksChunk(a.buttons.running()), taskChunk("0", "Working…", taskRuns)))
	return ts, err
}

// stopStream ends a stream, so that it can be edited. Slack may have ended it before: it does when nothing is appended
// for some minutes.
func (a *answer) stopStream(ctx context.Context, ts string) error {
	_, _, err := a.web.StopStreamContext(ctx, a.r.Channel, ts)
	if code := errorCode(err); code != "" && !isLost(err) && !internalErrors[code] {
		return nil
	}
	return err
}

// findStream returns the timestamp of a stream that was started and not recorded; empty: there is none. The start of a
// stream has no metadata: it is a message of ours in the thread that no record knows.
func (a *answer) findStream(ctx context.Context) (string, error) {
	all, err := a.slack.RepliesIn(ctx, a.r.Team, a.r.Channel, a.r.ThreadTS)
	if err != nil {
		return "", err
	}
	known := map[string]bool{}
	for _, r := range all {
		var p progress
		if err := json.Unmarshal(r.Progress, &p); err != nil {
			return "", err
		}
		known[p.Notice.TS] = true
		for _, part := range p.Parts {
			known[part.TS] = true
		}
	}
	return a.find(ctx, func(m slackgo.Message) bool {
		return m.Timestamp > a.r.MessageTS && m.Metadata.EventType == "" && len(m.Files) == 0 && !known[m.Timestamp]
	})
}

func taskChunk(id, title, state string) slackgo.StreamChunk {
	c := slackgo.NewTaskUpdateChunk(id, harmless(title))
	switch c.Status = slackgo.TaskCardStatusInProgress; state {
	case taskDone:
		c.Status = slackgo.TaskCardStatusComplete
	case taskFailed:
		c.Status = slackgo.TaskCardStatusError
	}
	return c
}

// calling are the places in Markdown at which Slack could read the name of a person, a group or a channel.
var calling = regexp.MustCompile(`((?:[<(]|\]:)\s*)([!@#])`)

// harmless returns Markdown that mentions no one. It changes nothing that it has returned for the beginning of the text.
func harmless(text string) string { return calling.ReplaceAllString(text, "$1\u200b$2") }

// A longer stream goes on as edits, which show its end.
const (
	mostStreamText  = 11_000
	mostStreamTasks = 40
)

// stream appends to the stream of an answer what it does not have yet.
type stream struct {
	text  string
	tasks map[string]task
}

// chunks returns the pieces to append; ok is false if appending cannot show the view.
func (s *stream) chunks(v *view) (next stream, chunks []slackgo.StreamChunk, ok bool) {
	text := harmless(v.text())
	added, ok := strings.CutPrefix(text, s.text)
	if !ok || len(text) > mostStreamText || len(v.tasks) > mostStreamTasks {
		return next, nil, false
	}
	if added != "" {
		chunks = append(chunks, slackgo.NewMarkdownTextChunk(added))
	}
	next = stream{text, map[string]task{}}
	begin := task{"0", "Working…", taskRuns}
	switch {
	case v.status != "":
		begin.title = clip(oneLine(v.status), 120)
	case v.hasText() || len(v.tasks) > 0:
		begin = task{"0", "Started", taskDone}
	}
	for i, t := range append([]task{begin}, v.tasks...) {
		t.id = fmt.Sprint(i)
		if next.tasks[t.id] = t; s.tasks[t.id] != t {
			chunks = append(chunks, taskChunk(t.id, t.title, t.state))
		}
	}
	return next, chunks, true
}

// append shows the view in the stream. An append cannot be repeated: if it may be lost, the answer goes on as edits.
func (l *live) append(ctx context.Context, v *view) error {
	next, chunks, ok := l.stream.chunks(v)
	if !ok {
		l.a.streaming = false
		return nil
	}
	if len(chunks) == 0 {
		return nil
	}
	err := once(ctx, func(ctx context.Context) error {
		_, _, err := l.a.web.AppendStreamContext(ctx, l.a.r.Channel, l.a.p.Parts[0].TS, slackgo.MsgOptionChunks(chunks...))
		return err
	})
	var limited *slackgo.RateLimitedError
	switch {
	case err == nil:
		l.stream = next
		l.wait(v)
	case errors.As(err, &limited):
		l.next = time.Now().Add(limited.RetryAfter)
	case isLost(err):
		return err
	default:
		l.a.streaming = false
	}
	return nil
}
