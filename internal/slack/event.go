package slack

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/berthdev/berth/internal/store"
)

// callback is what Slack sends for an event.
type callback struct {
	Type      string          `json:"type"`
	Challenge string          `json:"challenge"`
	Team      string          `json:"team_id"`
	EventID   string          `json:"event_id"`
	Event     json.RawMessage `json:"event"`
}

// message is an event about a message.
type message struct {
	Type        string   `json:"type"`
	Subtype     string   `json:"subtype"`
	User        string   `json:"user"`
	Bot         string   `json:"bot_id"`
	Text        string   `json:"text"`
	TS          string   `json:"ts"`
	ThreadTS    string   `json:"thread_ts"`
	Channel     string   `json:"channel"`
	EventTS     string   `json:"event_ts"`
	ChannelType string   `json:"channel_type"`
	Files       []file   `json:"files"`
	Changed     *message `json:"message"`
	Deleted     string   `json:"deleted_ts"`
}

// file is a file of a message.
type file struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"mimetype"`
	Mode string `json:"mode"`
	Size int64  `json:"size"`
	URL  string `json:"url_private_download"`
}

// request is what a message asks for, as it is stored.
type request struct {
	User  string `json:"user"`
	Text  string `json:"text,omitempty"`
	Files []file `json:"files,omitempty"`
	Key   string `json:"key"` // of the thread
}

// Kinds of replies.
const (
	kindPrompt = "prompt"
	kindStop   = "stop"
	kindHelp   = "help" // the message has no text
)

// maxText is the greatest length of a message in Slack.
const maxText = 40_000

// Receive records an event and what it changes. Once it returns without an error, the event may be acknowledged.
func (s *Service) receive(ctx context.Context, c callback) error {
	w, err := s.slack.Workspace(ctx, c.Team)
	if err != nil {
		return err
	}
	var m message
	if err := json.Unmarshal(c.Event, &m); err != nil {
		s.opts.Log.DebugContext(ctx, "an event of Slack cannot be read", "team", c.Team, "event_id", c.EventID, "error", err)
		return nil
	}
	change, err := s.changeOf(ctx, w, m)
	if err != nil || change == (store.SlackChange{}) {
		return err
	}
	added, err := s.slack.Receive(ctx, c.Team, c.EventID, change)
	if err != nil {
		return err
	}
	if added && change.Reply != nil {
		s.at("slack-received", change.Reply.ID)
		s.wake()
	}
	return nil
}

// changeOf returns what an event changes; the zero value: nothing.
func (s *Service) changeOf(ctx context.Context, w store.SlackWorkspace, m message) (c store.SlackChange, err error) {
	switch {
	case m.Type == "app_uninstalled" || m.Type == "tokens_revoked":
		s.nudge()
		return c, s.slack.SetFailure(ctx, w.Team, "the app was removed from the workspace")
	case m.Type == "channel_left" || m.Type == "group_left":
		c.Leave = &store.SlackReply{Team: w.Team, Channel: m.Channel, MessageTS: m.EventTS}
		return c, nil
	case m.Type != "message" && m.Type != "app_mention":
		return c, nil
	case m.Subtype == "message_deleted":
		c.Delete = &store.SlackReply{Team: w.Team, Channel: m.Channel, MessageTS: m.Deleted}
		return c, nil
	case m.Subtype == "message_changed" && m.Changed != nil:
		edited := *m.Changed
		edited.Channel, edited.ChannelType = m.Channel, m.ChannelType
		if edited.Bot == "" && edited.Subtype != "tombstone" {
			c.Edit = replyTo(w, edited)
		}
		return c, nil
	case m.Bot != "" || m.User == "" || m.User == w.BotUser || m.User == "USLACKBOT" || m.TS == "":
		return c, nil
	case m.Subtype != "" && m.Subtype != "file_share" && m.Subtype != "thread_broadcast":
		return c, nil
	}
	if ours, err := s.isOurs(ctx, w, m); err != nil || !ours {
		return c, err
	}
	c.Reply = replyTo(w, m)
	if c.Reply.Kind == kindStop {
		c.Stop = c.Reply
	}
	return c, nil
}

// isOurs reports whether a message is for us: it mentions us, it is direct, or we answered in its thread before.
func (s *Service) isOurs(ctx context.Context, w store.SlackWorkspace, m message) (bool, error) {
	switch {
	case m.Type == "app_mention" || m.ChannelType == "im" || strings.Contains(m.Text, "<@"+w.BotUser+">"):
		return true, nil
	case m.ThreadTS == "" || strings.HasPrefix(m.Text, "<@"): // for another person
		return false, nil
	}
	return s.slack.HasThread(ctx, w.Team, m.Channel, m.ThreadTS, m.TS)
}

// idSpace makes the ids of replies.
var idSpace = uuid.MustParse("9c7d5b64-41f1-4f0e-9d4c-2f6f0a1c5e11")

// replyTo returns the record of a message that gets an answer.
func replyTo(w store.SlackWorkspace, m message) *store.SlackReply {
	thread := m.ThreadTS
	if thread == "" {
		thread = m.TS
	}
	key := m.Channel + ":" + thread
	if m.ChannelType == "im" {
		key = "dm:" + m.User
	}
	q := request{User: m.User, Text: plainText(m.Text, w.BotUser), Files: m.Files, Key: key}
	kind := kindPrompt
	switch word := strings.ToLower(strings.Trim(q.Text, " .!\n")); {
	case word == "stop" && len(m.Files) == 0:
		kind = kindStop
	case q.Text == "" && len(m.Files) == 0:
		kind = kindHelp
	}
	stored, err := json.Marshal(q)
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return &store.SlackReply{
		ID: uuid.NewSHA1(idSpace, []byte(w.Team+"/"+m.Channel+"/"+m.TS)).String(), Tenant: w.Tenant, Team: w.Team, Channel: m.Channel,
		MessageTS: m.TS, ThreadTS: thread, Thread: w.Team + "/" + key, Kind: kind, Request: stored,
	}
}

var (
	marked    = regexp.MustCompile(`<([^<>]*)>`)
	unescaper = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
)

// plainText returns a message's text as a person sees it, without the mention of the app.
func plainText(text, bot string) string {
	if len(text) > 4*maxText {
		text = strings.ToValidUTF8(text[:4*maxText], "")
	}
	text = strings.ReplaceAll(text, "<@"+bot+">", "")
	text = marked.ReplaceAllStringFunc(text, func(s string) string {
		target, label, labelled := strings.Cut(s[1:len(s)-1], "|")
		switch {
		case strings.HasPrefix(target, "@"), strings.HasPrefix(target, "!"):
			if labelled {
				return "@" + strings.TrimPrefix(label, "@")
			}
			return "@" + target[1:]
		case strings.HasPrefix(target, "#"):
			if labelled {
				return "#" + label
			}
			return target
		case labelled && label != target && !strings.HasSuffix(target, "//"+label):
			return label + " (" + target + ")"
		}
		return target
	})
	text = strings.Map(func(c rune) rune {
		if c == 0 {
			return -1
		}
		return c
	}, strings.ToValidUTF8(unescaper.Replace(text), ""))
	return strings.TrimSpace(text)
}
