package fakellm

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

func parseMessages(body []byte) (*call, error) {
	var r struct {
		Model     string          `json:"model"`
		Stream    bool            `json:"stream"`
		MaxTokens int             `json:"max_tokens"`
		System    json.RawMessage `json:"system"`
		Tools     []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	if len(r.Messages) == 0 {
		return nil, errors.New("messages: at least one message is required")
	}
	c := &call{model: r.Model, stream: r.Stream, system: len(r.System) > 0, maxTokens: r.MaxTokens}
	for _, t := range r.Tools {
		c.tools = append(c.tools, offer(t.Name, t.Schema))
	}
	last := ""
	for _, m := range r.Messages {
		switch {
		case m.Role == "assistant" && last != "assistant":
			c.addAnswer()
		case m.Role == "user":
			text, result, has := parseContent(m.Content)
			if has {
				c.result = result
			}
			c.addPrompt(text)
			c.addImages(m.Content)
		}
		last = m.Role
	}
	return c, nil
}

var errorTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}

func messagesError(w http.ResponseWriter, f Fault) {
	writeJSON(w, f.Status, obj{"type": "error", "error": obj{
		"type":    cmp.Or(errorTypes[f.Status], "api_error"),
		"message": cmp.Or(f.Message, "scripted failure "+strconv.Itoa(f.Status)),
	}})
}

func messagesUsage(u Usage, output int) obj {
	return obj{
		"input_tokens": u.Input, "output_tokens": output,
		"cache_creation_input_tokens": u.CacheCreate, "cache_read_input_tokens": u.CacheRead,
		"cache_creation": obj{"ephemeral_5m_input_tokens": u.CacheCreate, "ephemeral_1h_input_tokens": 0},
		"service_tier":   "standard",
	}
}

// part is a content block: its form at the start of a stream, its complete form, and a function that sends its deltas.
type part struct {
	begin, whole obj
	deltas       func(t *stream, send func(obj))
}

func (s *Server) parts(a *answer) (parts []part) {
	if a.thinking != "" {
		const signature = "ZmFrZQ=="
		parts = append(parts, part{
			obj{"type": "thinking", "thinking": "", "signature": ""},
			obj{"type": "thinking", "thinking": a.thinking, "signature": signature},
			func(t *stream, send func(obj)) {
				t.pieces(a.thinking, func(p string) { send(obj{"type": "thinking_delta", "thinking": p}) })
				send(obj{"type": "signature_delta", "signature": signature})
			}})
	}
	if a.text != "" {
		parts = append(parts, part{
			obj{"type": "text", "text": ""},
			obj{"type": "text", "text": a.text},
			func(t *stream, send func(obj)) {
				t.pieces(a.text, func(p string) { send(obj{"type": "text_delta", "text": p}) })
			}})
	}
	for _, tool := range a.tools {
		id := s.id("toolu")
		parts = append(parts, part{
			obj{"type": "tool_use", "id": id, "name": tool.Name, "input": obj{}},
			obj{"type": "tool_use", "id": id, "name": tool.Name, "input": tool.Input},
			func(t *stream, send func(obj)) {
				send(obj{"type": "input_json_delta", "partial_json": ""})
				t.pieces(string(tool.Input), func(p string) { send(obj{"type": "input_json_delta", "partial_json": p}) })
			}})
	}
	return parts
}

// sendMessage sends an answer in the Messages protocol. Like the real service, a stream first reports one output
// token and reports the true number at the end.
func sendMessage(s *Server, t *stream, c *call, a *answer) {
	msg := obj{"id": s.id("msg"), "type": "message", "role": "assistant", "model": c.model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil}
	parts := s.parts(a)
	if !c.stream {
		content := []any{}
		for _, p := range parts {
			content = append(content, p.whole)
		}
		msg["content"], msg["stop_reason"], msg["usage"] = content, a.stop, messagesUsage(a.usage, a.usage.Output)
		writeJSON(t.w, http.StatusOK, msg)
		return
	}
	msg["usage"] = messagesUsage(a.usage, 1)
	event := func(name string, o obj) {
		o["type"] = name
		t.event(name, o)
	}
	event("message_start", obj{"message": msg})
	event("ping", obj{})
	for i, p := range parts {
		event("content_block_start", obj{"index": i, "content_block": p.begin})
		p.deltas(t, func(d obj) { event("content_block_delta", obj{"index": i, "delta": d}) })
		event("content_block_stop", obj{"index": i})
	}
	event("message_delta", obj{"delta": obj{"stop_reason": a.stop, "stop_sequence": nil}, "usage": messagesUsage(a.usage, a.usage.Output)})
	event("message_stop", obj{})
}
