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
	stream bool // it may begin as a stream
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
		err := a.try(ctx, func(ctx context.Context) error { return a.edit(ctx, p, c) })
		switch {
		case err == nil:
			return a.edited(ctx, p)
		case errorCode(err) != "message_not_found":
			return err
		}
		p.TS, p.Stream = "", false // a person removed it; the next post has another key
		if err := a.save(ctx); err != nil {
			return err
		}
	}
}

// edit changes a message. A stream is stopped first.
func (a *answer) edit(ctx context.Context, p *post, c content) error {
	if p.Stream {
		a.streaming = false
		if err := a.stopStream(ctx, p.TS); err != nil {
			return err
		}
	}
	_, _, _, err := a.web.UpdateMessageContext(ctx, a.r.Channel, p.TS, c.options()...)
	return err
}

// edited records that a message is a stream no longer.
func (a *answer) edited(ctx context.Context, p *post) error {
	if !p.Stream {
		return nil
	}
	p.Stream = false
	return a.save(ctx)
}

// afterLost is the pause before a post whose answer was lost is looked for: Slack may still be at it.
const afterLost = 2 * time.Second

// postOnce posts a message that may have been posted before. An attempt is recorded before it is made, and looked for
// before there is another one.
func (a *answer) postOnce(ctx context.Context, p *post, name string, c content) error {
	for looked := false; ; {
		if p.Tried > 0 && !looked {
			ts, err := a.findPost(ctx, p, name)
			if err != nil {
				return err
			}
			if ts != "" {
				p.TS = ts
				return a.save(ctx)
			}
		}
		p.Tried++
		p.Stream = c.stream && a.mayStream()
		if err := a.save(ctx); err != nil {
			return err
		}
		err := once(ctx, func(ctx context.Context) (err error) {
			p.TS, err = a.post(ctx, *p, name, c)
			return err
		})
		if err == nil {
			a.streaming = p.Stream
			a.at(map[bool]string{false: "slack-posted", true: "slack-stream-started"}[p.Stream], a.r.ID)
			return a.save(ctx)
		}
		p.TS = ""
		wait, again := pauseAfter(err, afterLost)
		if !again && p.Stream && !isLost(err) {
			a.streamRefused(ctx, errorCode(err))
			looked = true
			continue
		}
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

// keyOf names the last attempt to post a message.
func (a *answer) keyOf(p post, name string) string {
	return fmt.Sprintf("%s %s %d", a.r.ID, name, p.Tried)
}

// post makes an attempt to post a message.
func (a *answer) post(ctx context.Context, p post, name string, c content) (ts string, err error) {
	if p.Stream {
		return a.startStream(ctx)
	}
	meta := slackgo.SlackMetadata{EventType: metadataType, EventPayload: map[string]any{"key": a.keyOf(p, name)}}
	_, ts, err = a.web.PostMessageContext(ctx, a.r.Channel, append(c.options(), slackgo.MsgOptionTS(a.r.ThreadTS), slackgo.MsgOptionMetadata(meta))...)
	return ts, err
}

// findPost looks for the message of the last attempt; empty: it is not there.
func (a *answer) findPost(ctx context.Context, p *post, name string) (ts string, err error) {
	if p.Stream {
		return a.findStream(ctx)
	}
	key := a.keyOf(*p, name)
	return a.find(ctx, func(m slackgo.Message) bool {
		return m.Metadata.EventType == metadataType && m.Metadata.EventPayload["key"] == key
	})
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
		ts, err := a.findPost(ctx, p, "notice")
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
