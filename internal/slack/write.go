package slack

import (
	"context"
	"fmt"
	"slices"
	"time"

	slackgo "github.com/slack-go/slack"
)

// Reactions to a message.
const (
	seen      = "eyes"
	succeeded = "white_check_mark"
	failed    = "x"
)

// metadataType marks our messages. Their payload has the key under which a message is posted once.
const metadataType = "berth_reply"

// content is the content of a message.
type content struct {
	text   string // for notifications, and for clients that show no blocks
	blocks []slackgo.Block
}

func (c content) options() []slackgo.MsgOption {
	return []slackgo.MsgOption{
		slackgo.MsgOptionText(clip(c.text, fallbackText), false), slackgo.MsgOptionBlocks(c.blocks...), slackgo.MsgOptionDisableLinkUnfurl(), slackgo.MsgOptionDisableMediaUnfurl(),
	}
}

// put writes part n of the answer: it posts it, or edits what was posted.
func (a *answer) put(ctx context.Context, n int, c content) error {
	for len(a.p.Parts) <= n {
		a.p.Parts = append(a.p.Parts, post{})
	}
	for {
		p := &a.p.Parts[n]
		if p.TS == "" {
			return a.postOnce(ctx, p, fmt.Sprint("part ", n), c)
		}
		err := a.try(ctx, func(ctx context.Context) error { return a.edit(ctx, p.TS, c) })
		if errorCode(err) != "message_not_found" {
			return err
		}
		p.TS = "" // a person removed it; the next post has another key
		if err := a.save(ctx); err != nil {
			return err
		}
	}
}

func (a *answer) edit(ctx context.Context, ts string, c content) error {
	_, _, _, err := a.web.UpdateMessageContext(ctx, a.r.Channel, ts, c.options()...)
	return err
}

// afterLost is the pause before a post whose answer was lost is looked for: Slack may still be at it.
const afterLost = 2 * time.Second

// postOnce posts a message that may have been posted before. An attempt is recorded before it is made, and looked for
// before there is another one.
func (a *answer) postOnce(ctx context.Context, p *post, name string, c content) error {
	for looked := false; ; {
		key := fmt.Sprintf("%s %s %d", a.r.ID, name, p.Tried)
		if p.Tried > 0 && !looked {
			ts, err := a.find(ctx, func(m slackgo.Message) bool {
				return m.Metadata.EventType == metadataType && m.Metadata.EventPayload["key"] == key
			})
			if err != nil {
				return err
			}
			if ts != "" {
				p.TS = ts
				return a.save(ctx)
			}
		}
		looked = false
		p.Tried++
		if err := a.save(ctx); err != nil {
			return err
		}
		key = fmt.Sprintf("%s %s %d", a.r.ID, name, p.Tried)
		options := append(c.options(), slackgo.MsgOptionTS(a.r.ThreadTS), slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: metadataType, EventPayload: map[string]any{"key": key}}))
		err := once(ctx, func(ctx context.Context) (err error) {
			_, p.TS, err = a.web.PostMessageContext(ctx, a.r.Channel, options...)
			return err
		})
		if err == nil {
			a.at("slack-posted", a.r.ID)
			return a.save(ctx)
		}
		p.TS = ""
		wait, again := pauseAfter(err, afterLost)
		if !again {
			return err
		}
		looked = !isUncertain(err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// find returns the timestamp of our newest message in the thread that matches; empty: there is none.
func (a *answer) find(ctx context.Context, matches func(slackgo.Message) bool) (ts string, err error) {
	p := slackgo.GetConversationRepliesParameters{ChannelID: a.r.Channel, Timestamp: a.r.ThreadTS, Oldest: a.oldest(), Limit: 200, IncludeAllMetadata: true}
	for {
		var page []slackgo.Message
		var more bool
		err := a.try(ctx, func(ctx context.Context) (err error) {
			page, more, p.Cursor, err = a.web.GetConversationRepliesContext(ctx, &p)
			return err
		})
		if err != nil {
			return "", err
		}
		for _, m := range page {
			if m.User == a.w.BotUser && matches(m) {
				ts = m.Timestamp
			}
		}
		if !more || p.Cursor == "" {
			return ts, nil
		}
	}
}

// oldest is the timestamp after which our posts are. A button's message can be older than the click.
func (a *answer) oldest() string {
	if a.r.Kind == kindStop {
		return a.r.ThreadTS
	}
	return a.r.MessageTS
}

// remove removes a message that was posted, if it was.
func (a *answer) remove(ctx context.Context, p *post) error {
	if p.Tried == 0 || p.Gone {
		return nil
	}
	if p.TS == "" {
		key := fmt.Sprintf("%s notice %d", a.r.ID, p.Tried)
		ts, err := a.find(ctx, func(m slackgo.Message) bool { return m.Metadata.EventPayload["key"] == key })
		if err != nil {
			return err
		}
		p.TS = ts
	}
	if p.TS != "" {
		err := a.try(ctx, func(ctx context.Context) error {
			_, _, err := a.web.DeleteMessageContext(ctx, a.r.Channel, p.TS)
			return err
		})
		if err != nil && errorCode(err) != "message_not_found" {
			return err
		}
	}
	p.Gone = true
	return a.save(ctx)
}

// settled are answers which say that a reaction is as it should be, or cannot be.
var settled = []string{"already_reacted", "no_reaction", "message_not_found", "missing_scope", "too_many_emoji", "too_many_reactions", "not_reactable"}

// react adds a reaction to the message, or removes it.
func (a *answer) react(ctx context.Context, name string, add bool) error {
	item := slackgo.NewRefToMessage(a.r.Channel, a.r.MessageTS)
	err := a.try(ctx, func(ctx context.Context) error {
		if add {
			return a.web.AddReactionContext(ctx, name, item)
		}
		return a.web.RemoveReactionContext(ctx, name, item)
	})
	if slices.Contains(settled, errorCode(err)) {
		return nil
	}
	return err
}
