package slacktest

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Limits of messages.
const (
	maxUpdateText  = 4_000
	maxText        = 40_000
	maxBlocks      = 50
	maxSectionText = 3_000
	maxMarkdown    = 12_000
)

// target returns the channel of a call that writes into it. The lock must be held.
func (t *Team) target(a args) (*channel, string) {
	c := t.channels[a["channel"]]
	switch {
	case a["channel"] == "":
		return nil, "invalid_arguments"
	case c == nil:
		return nil, "channel_not_found"
	case c.archived:
		return nil, "is_archived"
	case !c.members[t.BotUser]:
		return nil, "not_in_channel"
	}
	return c, ""
}

// content checks the text, the blocks and the metadata of a message and puts them into it.
func content(m *Message, a args, most int) string {
	text, blocks := a["text"], a["blocks"]
	switch {
	case text == "" && blocks == "" && a["markdown_text"] == "":
		return "no_text"
	case utf8.RuneCountInString(text) > most:
		return "msg_too_long"
	}
	if blocks != "" {
		var list []struct {
			Type string `json:"type"`
			Text struct {
				Text string `json:"text"`
			} `json:"text"`
			Elements []json.RawMessage `json:"elements"`
		}
		if json.Unmarshal([]byte(blocks), &list) != nil || len(list) > maxBlocks {
			return "invalid_blocks"
		}
		for _, b := range list {
			if b.Type == "" || b.Type == "section" && (b.Text.Text == "" || utf8.RuneCountInString(b.Text.Text) > maxSectionText) ||
				(b.Type == "actions" || b.Type == "context") && len(b.Elements) == 0 {
				return "invalid_blocks"
			}
		}
		m.Blocks = json.RawMessage(blocks)
	}
	if raw := a["metadata"]; raw != "" {
		var meta struct {
			EventType string         `json:"event_type"`
			Payload   map[string]any `json:"event_payload"`
		}
		if json.Unmarshal([]byte(raw), &meta) != nil || meta.EventType == "" || meta.Payload == nil {
			return "invalid_metadata_format"
		}
		m.Metadata = json.RawMessage(raw)
	}
	if a["markdown_text"] != "" {
		text = a["markdown_text"]
	}
	m.Text = text
	return ""
}

func (t web) postMessage(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c, code := t.target(a)
	if code != "" {
		return nil, code
	}
	m, code := t.draft(c, a)
	if code != "" {
		return nil, code
	}
	if code := content(m, a, maxText); code != "" {
		return nil, code
	}
	t.add(c, m)
	return obj{"channel": c.id, "ts": m.TS, "message": t.show(m, true)}, ""
}

// draft returns a message of the app that is not yet in the channel.
func (t *Team) draft(c *channel, a args) (*Message, string) {
	if thread := a["thread_ts"]; thread != "" && c.find(thread) == nil {
		return nil, "thread_not_found"
	}
	return &Message{Channel: c.id, ThreadTS: a["thread_ts"], User: t.BotUser, BotID: t.BotID, Reactions: map[string][]string{}}, ""
}

// add puts a message into its channel and announces it.
func (t *Team) add(c *channel, m *Message) {
	m.TS = t.server.ts()
	c.messages = append(c.messages, m)
	event := t.show(m, false)
	event["channel"], event["channel_type"], event["event_ts"] = c.id, c.kind(), m.TS
	t.emit(event)
}

func (c *channel) kind() string {
	if c.im != "" {
		return "im"
	}
	return "channel"
}

// show returns a message as the API shows it.
func (t *Team) show(m *Message, metadata bool) obj {
	o := obj{"type": "message", "ts": m.TS, "user": m.User, "text": m.Text, "team": t.ID}
	if m.ThreadTS != "" {
		o["thread_ts"] = m.ThreadTS
	}
	if m.BotID != "" {
		o["bot_id"], o["app_id"] = m.BotID, t.AppID
	}
	if m.Subtype != "" {
		o["subtype"] = m.Subtype
	}
	if m.Blocks != nil {
		o["blocks"] = m.Blocks
	}
	if metadata && m.Metadata != nil {
		o["metadata"] = m.Metadata
	}
	if m.Streaming {
		o["streaming_state"] = "in_progress"
	}
	if len(m.Files) > 0 {
		var files []obj
		for _, id := range m.Files {
			files = append(files, t.showFile(t.files[id]))
		}
		o["files"] = files
	}
	return o
}

func (t web) postEphemeral(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c, code := t.target(a)
	if code == "" && !c.members[a["user"]] {
		code = "user_not_in_channel"
	}
	if code != "" {
		return nil, code
	}
	m := &Message{Channel: c.id, ThreadTS: a["thread_ts"], User: a["user"], BotID: t.BotID}
	if code := content(m, a, maxText); code != "" {
		return nil, code
	}
	m.TS = t.server.ts()
	t.ephemeral = append(t.ephemeral, *m)
	return obj{"message_ts": m.TS}, ""
}

// own returns a message of the app.
func (t *Team) own(a args) (*channel, *Message, string) {
	c, code := t.target(a)
	if code != "" {
		return nil, nil, code
	}
	m := c.find(a["ts"])
	switch {
	case m == nil:
		return nil, nil, "message_not_found"
	case m.BotID != t.BotID:
		return nil, nil, "cant_update_message"
	}
	return c, m, ""
}

func (t web) update(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c, m, code := t.own(a)
	if code != "" {
		return nil, code
	}
	if m.Streaming {
		return nil, "streaming_state_conflict"
	}
	before := *m
	if code := content(m, a, maxUpdateText); code != "" {
		*m = before
		return nil, code
	}
	m.Edits = append(m.Edits, time.Now())
	t.emit(obj{"type": "message", "subtype": "message_changed", "channel": c.id, "channel_type": c.kind(), "hidden": true, "ts": t.server.ts(), "message": t.show(m, false), "previous_message": t.show(&before, false)})
	return obj{"channel": c.id, "ts": m.TS, "text": m.Text}, ""
}

func (t web) deleteMessage(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c, m, code := t.own(a)
	if code != "" {
		return nil, code
	}
	t.remove(c, m)
	return obj{"channel": c.id, "ts": m.TS}, ""
}

// remove removes a message. The first message of a thread leaves a tombstone, so that the thread stays.
func (t *Team) remove(c *channel, m *Message) {
	before := *m
	if slices.ContainsFunc(c.messages, func(o *Message) bool { return o.ThreadTS == m.TS }) {
		m.Subtype, m.User, m.Text, m.Files, m.Reactions = "tombstone", "USLACKBOT", "This message was deleted.", nil, map[string][]string{}
	} else {
		c.messages = slices.DeleteFunc(c.messages, func(o *Message) bool { return o == m })
	}
	t.emit(obj{"type": "message", "subtype": "message_deleted", "channel": c.id, "channel_type": c.kind(), "hidden": true, "ts": t.server.ts(), "deleted_ts": m.TS, "previous_message": t.show(&before, false)})
}

// replies lists a thread in pages. Metadata is shown only if it is asked for.
func (t web) replies(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c := t.channels[a["channel"]]
	switch {
	case c == nil:
		return nil, "channel_not_found"
	case !c.members[t.BotUser]:
		return nil, "not_in_channel"
	case c.find(a["ts"]) == nil:
		return nil, "thread_not_found"
	}
	var found []*Message
	for _, m := range c.messages {
		if m.TS == a["ts"] || m.ThreadTS == a["ts"] && (a["oldest"] == "" || m.TS > a["oldest"]) {
			found = append(found, m)
		}
	}
	limit, _ := strconv.Atoi(a["limit"])
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	from, _ := strconv.Atoi(a["cursor"])
	page := found[min(from, len(found)):min(from+limit, len(found))]
	list := []obj{}
	for _, m := range page {
		list = append(list, t.show(m, a["include_all_metadata"] == "true" || a["include_all_metadata"] == "1"))
	}
	next := ""
	if from+limit < len(found) {
		next = strconv.Itoa(from + limit)
	}
	return obj{"messages": list, "has_more": next != "", "response_metadata": obj{"next_cursor": next}}, ""
}

func (t web) addReaction(a args) (obj, string) {
	return t.react(a, func(m *Message, name string) string {
		if slices.Contains(m.Reactions[name], t.BotUser) {
			return "already_reacted"
		}
		m.Reactions[name] = append(m.Reactions[name], t.BotUser)
		return ""
	})
}

func (t web) removeReaction(a args) (obj, string) {
	return t.react(a, func(m *Message, name string) string {
		at := slices.Index(m.Reactions[name], t.BotUser)
		if at < 0 {
			return "no_reaction"
		}
		if m.Reactions[name] = slices.Delete(m.Reactions[name], at, at+1); len(m.Reactions[name]) == 0 {
			delete(m.Reactions, name)
		}
		return ""
	})
}

func (t web) react(a args, change func(m *Message, name string) string) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c, code := t.target(a)
	if code != "" {
		return nil, code
	}
	m := c.find(a["timestamp"])
	switch {
	case a["name"] == "":
		return nil, "invalid_name"
	case m == nil:
		return nil, "message_not_found"
	}
	return nil, change(m, a["name"])
}
