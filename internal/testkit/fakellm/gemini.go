package fakellm

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// geminiRequest is a request of Gemini's generateContent.
type geminiRequest struct {
	Contents []struct {
		Role  string       `json:"role"`
		Parts []geminiPart `json:"parts"`
	} `json:"contents"`
	System json.RawMessage `json:"systemInstruction"`
	Tools  []struct {
		Functions []struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Schema     json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		Type string `json:"responseMimeType"`
	} `json:"generationConfig"`
}

type geminiPart struct {
	Text     *string `json:"text"`
	Response *struct {
		Response struct{ Output, Error string } `json:"response"`
	} `json:"functionResponse"`
}

// parseGemini reads a request. The model's name and the choice of a stream are in the path.
func parseGemini(body []byte) (*call, error) {
	var r geminiRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	c := &call{system: len(r.System) > 0, side: r.Config.Type == "application/json"}
	for _, t := range r.Tools {
		for _, f := range t.Functions {
			schema := f.Schema
			if len(schema) == 0 {
				schema = f.Parameters
			}
			c.tools = append(c.tools, offer(f.Name, schema))
		}
	}
	answering := false
	for _, m := range r.Contents {
		if m.Role == "model" {
			if !answering {
				c.addAnswer()
			}
			answering = true
			continue
		}
		answering = false
		c.addGemini(m.Parts)
	}
	return c, nil
}

// addGemini adds a user's message. The CLI adds messages about itself, which begin "This is the".
func (c *call) addGemini(parts []geminiPart) {
	var texts []string
	for _, p := range parts {
		switch {
		case p.Response != nil:
			c.result = p.Response.Response.Output + p.Response.Response.Error
		case p.Text != nil:
			texts = append(texts, *p.Text)
		}
	}
	if text := strings.Join(texts, "\n"); !strings.HasPrefix(userText(text), "This is the") {
		c.addPrompt(text)
	}
}

func geminiUsage(u Usage) obj {
	prompt := u.Input + u.CacheCreate + u.CacheRead
	return obj{"promptTokenCount": prompt, "candidatesTokenCount": u.Output, "totalTokenCount": prompt + u.Output, "cachedContentTokenCount": u.CacheRead}
}

// geminiSide is the answer to questions of the CLI that want JSON.
const geminiSide = `{"reasoning":"fake","next_speaker":"user","model_choice":"flash","complexity_reasoning":"fake","complexity_score":1,"title":"fake"}`

func sendGemini(s *Server, t *stream, c *call, a *answer) {
	id := s.id("resp")
	if c.side {
		a.text = geminiSide
	}
	chunk := func(parts []any, finish string, usage bool) obj {
		candidate := obj{"content": obj{"role": "model", "parts": parts}, "index": 0}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		o := obj{"candidates": []any{candidate}, "modelVersion": c.model, "responseId": id}
		if usage {
			o["usageMetadata"] = geminiUsage(a.usage)
		}
		return o
	}
	finish := "STOP"
	if a.stop == "max_tokens" {
		finish = "MAX_TOKENS"
	}
	var tools []any
	for _, tool := range a.tools {
		tools = append(tools, obj{"functionCall": obj{"name": tool.Name, "args": tool.Input}})
	}
	if !c.stream {
		var parts []any
		if a.thinking != "" {
			parts = append(parts, obj{"text": a.thinking, "thought": true})
		}
		writeJSON(t.w, http.StatusOK, chunk(append(append(parts, obj{"text": a.text}), tools...), finish, true))
		return
	}
	t.pieces(a.thinking, func(p string) { t.event("", chunk([]any{obj{"text": p, "thought": true}}, "", false)) })
	t.pieces(a.text, func(p string) { t.event("", chunk([]any{obj{"text": p}}, "", false)) })
	if len(tools) > 0 {
		t.event("", chunk(tools, "", false))
	}
	t.event("", chunk([]any{obj{"text": ""}}, finish, true))
}

// serveGemini answers POST /v1beta/models/MODEL:VERB.
func (s *Server) serveGemini(w http.ResponseWriter, r *http.Request) {
	model, verb, _ := strings.Cut(r.PathValue("call"), ":")
	if verb == "countTokens" {
		_, _ = io.Copy(io.Discard, r.Body)
		s.record(Request{Path: r.URL.Path, Status: http.StatusOK})
		writeJSON(w, http.StatusOK, obj{"totalTokens": 100})
		return
	}
	parse := func(body []byte) (*call, error) {
		c, err := parseGemini(body)
		if c != nil {
			c.model, c.stream = model, verb == "streamGenerateContent"
		}
		return c, err
	}
	s.serve(protocol{parse: parse, send: sendGemini, fail: openAIError}, w, r)
}
