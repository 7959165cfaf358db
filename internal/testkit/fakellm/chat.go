package fakellm

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

func parseChat(body []byte) (*call, error) {
	var r struct {
		Model         string `json:"model"`
		Stream        bool   `json:"stream"`
		MaxTokens     int    `json:"max_tokens"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools []struct {
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
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
	c := &call{model: r.Model, stream: r.Stream, usageAsked: r.StreamOptions.IncludeUsage, maxTokens: r.MaxTokens}
	for _, t := range r.Tools {
		c.tools = append(c.tools, offer(t.Function.Name, t.Function.Parameters))
	}
	for _, m := range r.Messages {
		text, _, _ := parseContent(m.Content)
		switch m.Role {
		case "system", "developer":
			c.system = true
			c.instructions += text
		case "assistant":
			c.addAnswer()
		case "tool":
			c.result = text
		case "user":
			c.addPrompt(text)
			c.addImages(m.Content)
		}
	}
	return c, nil
}

func openAIError(w http.ResponseWriter, f Fault) {
	writeJSON(w, f.Status, obj{"error": obj{
		"message": cmp.Or(f.Message, "scripted failure "+strconv.Itoa(f.Status)),
		"type":    cmp.Or(errorTypes[f.Status], "api_error"), "param": nil, "code": nil,
	}})
}

func chatUsage(u Usage) obj {
	prompt := u.Input + u.CacheCreate + u.CacheRead
	return obj{
		"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
		"prompt_tokens_details":     obj{"cached_tokens": u.CacheRead},
		"completion_tokens_details": obj{"reasoning_tokens": 0},
	}
}

func finishReason(stop string) string {
	switch stop {
	case "tool_use":
		return "tool_calls"
	case "max_tokens":
		return "length"
	}
	return "stop"
}

func sendChat(s *Server, t *stream, c *call, a *answer) {
	id := s.id("chatcmpl")
	base := func(kind string, choices ...any) obj {
		return obj{"id": id, "object": kind, "created": 1700000000, "model": c.model, "choices": choices}
	}
	var calls []obj
	for i, tool := range a.tools {
		calls = append(calls, obj{"index": i, "id": s.id("call"), "type": "function", "function": obj{"name": tool.Name, "arguments": string(tool.Input)}})
	}
	if !c.stream {
		m := obj{"role": "assistant", "content": a.text}
		if len(calls) > 0 {
			m["tool_calls"] = calls
		}
		o := base("chat.completion", obj{"index": 0, "message": m, "finish_reason": finishReason(a.stop)})
		o["usage"] = chatUsage(a.usage)
		writeJSON(t.w, http.StatusOK, o)
		return
	}
	chunk := func(delta obj, finish any) {
		t.event("", base("chat.completion.chunk", obj{"index": 0, "delta": delta, "finish_reason": finish}))
	}
	chunk(obj{"role": "assistant", "content": ""}, nil)
	t.pieces(a.thinking, func(p string) { chunk(obj{"reasoning_content": p}, nil) })
	t.pieces(a.text, func(p string) { chunk(obj{"content": p}, nil) })
	for i, tool := range a.tools {
		chunk(obj{"tool_calls": []any{obj{"index": i, "id": calls[i]["id"], "type": "function", "function": obj{"name": tool.Name, "arguments": ""}}}}, nil)
		t.pieces(string(tool.Input), func(p string) {
			chunk(obj{"tool_calls": []any{obj{"index": i, "function": obj{"arguments": p}}}}, nil)
		})
	}
	chunk(obj{}, finishReason(a.stop))
	if c.usageAsked {
		o := base("chat.completion.chunk")
		o["choices"], o["usage"] = []any{}, chatUsage(a.usage)
		t.event("", o)
	}
	t.raw("data: [DONE]\n\n")
}
