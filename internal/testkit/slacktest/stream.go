package slacktest

import (
	"encoding/json"
	"unicode/utf8"
)

func (t web) startStream(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c, code := t.target(a)
	switch {
	case code != "":
		return nil, code
	case a["thread_ts"] == "":
		return nil, "invalid_arguments"
	case c.im == "" && a["recipient_team_id"] == "":
		return nil, "missing_recipient_team_id"
	case c.im == "" && a["recipient_user_id"] == "":
		return nil, "missing_recipient_user_id"
	}
	m, code := t.draft(c, a)
	if code == "" {
		m.Streaming, m.Tasks = true, map[string]Task{}
		code = m.stream(a)
	}
	if code != "" {
		return nil, code
	}
	t.add(c, m)
	return obj{"channel": c.id, "ts": m.TS}, ""
}

func (t web) appendStream(a args) (obj, string) {
	if a["markdown_text"] == "" && a["chunks"] == "" {
		return nil, "no_text"
	}
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c, m, code := t.own(a)
	if code == "" {
		code = m.stream(a)
	}
	if code != "" {
		return nil, code
	}
	return obj{"channel": c.id, "ts": m.TS}, ""
}

func (t web) stopStream(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c, m, code := t.own(a)
	if code == "" {
		code = m.stream(a)
	}
	if code != "" {
		return nil, code
	}
	if a["blocks"] != "" || a["metadata"] != "" {
		final := args{"text": m.Text + " ", "blocks": a["blocks"], "metadata": a["metadata"]}
		streamed := m.Text
		if code := content(m, final, maxText); code != "" {
			return nil, code
		}
		m.Text = streamed
	}
	m.Streaming = false
	t.emit(obj{"type": "message", "subtype": "message_changed", "channel": c.id, "channel_type": c.kind(), "hidden": true, "ts": t.server.ts(), "message": t.show(m, false), "previous_message": t.show(m, false)})
	return obj{"channel": c.id, "ts": m.TS, "message": t.show(m, true)}, ""
}

// stream appends text and chunks to a streamed message.
func (m *Message) stream(a args) string {
	switch {
	case !m.Streaming:
		return "message_not_in_streaming_state"
	case a["markdown_text"] != "" && a["chunks"] != "":
		return "cannot_provide_both_markdown_text_and_chunks"
	}
	var chunks []struct {
		Type, Text, ID, Title, Status, Details string

		Blocks json.RawMessage
	}
	if raw := a["chunks"]; raw != "" && json.Unmarshal([]byte(raw), &chunks) != nil {
		return "invalid_chunks"
	}
	text := a["markdown_text"]
	for _, c := range chunks {
		switch c.Type {
		case "markdown_text":
			text += c.Text
		case "task_update":
			if c.ID == "" || c.Title == "" {
				return "invalid_chunks"
			}
			m.Tasks[c.ID] = Task{c.Title, c.Status, m.Tasks[c.ID].Details + c.Details}
		case "blocks":
			if code := content(&Message{}, args{"text": " ", "blocks": string(c.Blocks)}, maxText); code != "" {
				return code
			}
			m.Blocks = c.Blocks
		case "plan_update":
		default:
			return "invalid_chunks"
		}
	}
	if utf8.RuneCountInString(text) > maxMarkdown || utf8.RuneCountInString(m.Text+text) > maxText {
		return "msg_too_long"
	}
	m.Text += text
	return ""
}
