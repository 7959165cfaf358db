package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

func parseResponses(body []byte) (*call, error) {
	var r struct {
		Model        string          `json:"model"`
		Stream       bool            `json:"stream"`
		Instructions string          `json:"instructions"`
		MaxTokens    int             `json:"max_output_tokens"`
		Input        json.RawMessage `json:"input"`
		Tools        []struct {
			Type       string          `json:"type"`
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	c := &call{model: r.Model, stream: r.Stream, system: r.Instructions != "", maxTokens: r.MaxTokens}
	for _, t := range r.Tools {
		if t.Type == "function" {
			c.tools = append(c.tools, offer(t.Name, t.Parameters))
		}
	}
	var text string
	if json.Unmarshal(r.Input, &text) == nil {
		c.addPrompt(text)
		return c, nil
	}
	return c, c.items(r.Input)
}

// items reads the history of the conversation. Consecutive items of the model count as one answer.
func (c *call) items(input json.RawMessage) error {
	var items []struct {
		Type    string          `json:"type"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(input, &items); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	answering := false
	for _, it := range items {
		model := false
		switch {
		case strings.HasSuffix(it.Type, "_call_output"):
			c.result, _, _ = parseContent(it.Output)
		case it.Role == "user":
			text, _, _ := parseContent(it.Content)
			c.addPrompt(text)
		case it.Role == "system" || it.Role == "developer":
			c.system, model = true, answering
		default:
			if model = true; !answering {
				c.addAnswer()
			}
		}
		answering = model
	}
	return nil
}

func responsesUsage(u Usage) obj {
	input := u.Input + u.CacheCreate + u.CacheRead
	return obj{
		"input_tokens": input, "input_tokens_details": obj{"cached_tokens": u.CacheRead},
		"output_tokens": u.Output, "output_tokens_details": obj{"reasoning_tokens": 0}, "total_tokens": input + u.Output,
	}
}

// item is one output item of an answer: a message, or a function call if call is not empty.
type item struct {
	id, call, text string
	tool           Tool
}

func (it item) whole() obj {
	if it.call == "" {
		return obj{"type": "message", "id": it.id, "status": "completed", "role": "assistant", "content": []any{outputText(it.text)}}
	}
	return obj{"type": "function_call", "id": it.id, "status": "completed", "call_id": it.call, "name": it.tool.Name, "arguments": string(it.tool.Input)}
}

func outputText(text string) obj {
	return obj{"type": "output_text", "text": text, "annotations": []any{}}
}

func sendResponse(s *Server, t *stream, c *call, a *answer) {
	id := s.id("resp")
	response := func(status string, output []any, usage any) obj {
		return obj{"id": id, "object": "response", "created_at": 1700000000, "status": status, "model": c.model, "output": output, "usage": usage,
			"error": nil, "incomplete_details": nil, "parallel_tool_calls": true, "tools": []any{}}
	}
	var items []item
	if a.text != "" {
		items = append(items, item{id: s.id("msg"), text: a.text})
	}
	for _, tool := range a.tools {
		items = append(items, item{id: s.id("fc"), call: s.id("call"), tool: tool})
	}
	output := []any{}
	for _, it := range items {
		output = append(output, it.whole())
	}
	whole := response("completed", output, responsesUsage(a.usage))
	if !c.stream {
		writeJSON(t.w, http.StatusOK, whole)
		return
	}
	n := 0
	event := func(kind string, o obj) {
		o["type"], o["sequence_number"] = kind, n
		n++
		t.event(kind, o)
	}
	event("response.created", obj{"response": response("in_progress", []any{}, nil)})
	event("response.in_progress", obj{"response": response("in_progress", []any{}, nil)})
	for i, it := range items {
		it.send(t, i, event)
	}
	event("response.completed", obj{"response": whole})
}

func (it item) send(t *stream, i int, event func(string, obj)) {
	if it.call == "" {
		at := func(o obj) obj {
			o["item_id"], o["output_index"], o["content_index"] = it.id, i, 0
			return o
		}
		event("response.output_item.added", obj{"output_index": i, "item": obj{"type": "message", "id": it.id, "status": "in_progress", "role": "assistant", "content": []any{}}})
		event("response.content_part.added", at(obj{"part": outputText("")}))
		t.pieces(it.text, func(p string) { event("response.output_text.delta", at(obj{"delta": p})) })
		event("response.output_text.done", at(obj{"text": it.text}))
		event("response.content_part.done", at(obj{"part": outputText(it.text)}))
	} else {
		event("response.output_item.added", obj{"output_index": i, "item": obj{"type": "function_call", "id": it.id, "status": "in_progress", "call_id": it.call, "name": it.tool.Name, "arguments": ""}})
		t.pieces(string(it.tool.Input), func(p string) {
			event("response.function_call_arguments.delta", obj{"item_id": it.id, "output_index": i, "delta": p})
		})
		event("response.function_call_arguments.done", obj{"item_id": it.id, "output_index": i, "arguments": string(it.tool.Input)})
	}
	event("response.output_item.done", obj{"output_index": i, "item": it.whole()})
}
