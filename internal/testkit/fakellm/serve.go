package fakellm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

type obj = map[string]any

// protocol is one HTTP protocol of model services.
type protocol struct {
	path  string
	parse func([]byte) (*call, error)
	send  func(s *Server, to *stream, c *call, a *answer)
	fail  func(w http.ResponseWriter, f Fault)
}

var protocols = []protocol{
	{"/messages", parseMessages, sendMessage, messagesError},
	{"/chat/completions", parseChat, sendChat, openAIError},
	{"/responses", parseResponses, sendResponse, openAIError},
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/v1"} {
		for _, p := range protocols {
			mux.HandleFunc("POST "+prefix+p.path, func(w http.ResponseWriter, r *http.Request) { s.serve(p, w, r) })
		}
		mux.HandleFunc("POST "+prefix+"/messages/count_tokens", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			s.record(Request{Path: r.URL.Path, Status: http.StatusOK})
			writeJSON(w, http.StatusOK, obj{"input_tokens": 100})
		})
		mux.HandleFunc("GET "+prefix+"/models", func(w http.ResponseWriter, r *http.Request) {
			s.record(Request{Path: r.URL.Path, Status: http.StatusOK})
			writeJSON(w, http.StatusOK, obj{"object": "list", "has_more": false, "data": []any{obj{"id": "fake-large", "type": "model", "object": "model"}}})
		})
	}
	mux.HandleFunc("GET /v1/responses", func(w http.ResponseWriter, _ *http.Request) {
		openAIError(w, Fault{Status: http.StatusUpgradeRequired, Message: "there are no WebSockets here"}) // Codex then posts
	})
	mux.HandleFunc("POST /v1beta/models/{call}", s.serveGemini)
	mux.HandleFunc("GET /_fake/totals", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Totals()) })
	mux.HandleFunc("POST /_fake/release", func(w http.ResponseWriter, r *http.Request) { s.Release(r.URL.Query().Get("name")) })
	mux.HandleFunc("HEAD /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.record(Request{Path: r.URL.Path, Status: http.StatusNotFound})
		messagesError(w, Fault{Status: http.StatusNotFound, Message: "no such endpoint: " + r.Method + " " + r.URL.Path})
	})
	return mux
}

// statusClientGone is the recorded status of a call whose client went away before the answer.
const statusClientGone = 499

// serve answers one call of the model.
func (s *Server) serve(p protocol, w http.ResponseWriter, r *http.Request) {
	seen := Request{Path: r.URL.Path}
	defer func() { s.record(seen) }()
	fail := func(f Fault) {
		seen.Status = f.Status
		p.fail(w, f)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if err != nil {
		fail(Fault{Status: http.StatusRequestEntityTooLarge, Message: err.Error()})
		return
	}
	c, err := p.parse(body)
	if err != nil {
		fail(Fault{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	seen.System = c.instructions
	seen.Model, seen.Side, seen.Turn, seen.Step, seen.Prompt = c.model, c.isSide(), len(c.prompts), c.turn, firstRunes(c.prompt(), 400)
	seen.Images = c.images
	a, err := s.choose(c)
	if err != nil {
		fail(Fault{Status: http.StatusBadRequest, Message: "fakellm: " + err.Error()})
		return
	}
	if err := s.pause(r, &a.step, c.stream); err != nil {
		seen.Status, seen.Note = statusClientGone, err.Error()
		return
	}
	key := fmt.Sprintf("%s|%s|%d|%d", a.rule, c.prompt(), len(c.prompts), c.turn)
	if f := a.step.Error; f != nil && s.applies(key, f.Times) {
		fail(*f)
		return
	}
	to := s.open(w, r, &a.step, key)
	seen.Status, seen.Usage = http.StatusOK, &a.usage
	defer func() {
		if to.err != nil {
			seen.Note = to.err.Error()
		}
	}()
	w.Header().Set("Request-Id", s.id("req"))
	p.send(s, to, c, a)
}

// pause waits for the step's delay and for a hold before the first byte. HoldAt applies only to streamed answers.
func (s *Server) pause(r *http.Request, step *Step, stream bool) error {
	select {
	case <-time.After(step.Delay):
	case <-r.Context().Done():
		return errLeft
	}
	if step.Hold != "" && (step.HoldAt == 0 || !stream) {
		return s.wait(r.Context().Done(), step.Hold)
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
