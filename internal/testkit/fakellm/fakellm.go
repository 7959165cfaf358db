// Package fakellm is a fake service of a language model. It implements the protocols that agents use
// (Anthropic's Messages, OpenAI's Chat Completions and Responses, Gemini; streamed and not). Directives in the
// prompt determine the answers, so that real agents run from end to end without a model, an account or a network.
//
// [New] starts a service for a test. These are the directives:
//
//	go [[say Running.]][[bash echo hi]][[say It printed {{last_result}}]]
//
//	[[say TEXT]] [[think TEXT]]       a text or a thinking block
//	[[bash CMD]] [[write PATH :: TEXT]] [[read PATH]]  a call of the agent's tool of that kind
//	[[tool NAME {json}]]              any tool by name
//	[[next]]                          end the step, so that two calls are not in one message
//	[[error 529]] [[error 529 x2]]    fail with that status, always or the first 2 times
//	[[error 400 :: TEXT]]             fail with that status and message
//	[[cut N]] [[sse_error N]]         drop the connection, or send an error event, after N events
//	[[faults N]]                      limit cut and sse_error to the first N calls
//	[[delay 2s]] [[pace 50ms]]        pause before the first byte, or between deltas
//	[[chunk 4]]                       the number of runes in a delta
//	[[hold NAME]] [[hold NAME@3]]     wait, at the start or after 3 events, for Release(NAME)
//	[[usage in=1 out=2 cw=3 cr=4]]    the tokens of the step
//	[[stop max_tokens]]               the stop reason of the step
//
// A turn is a list of steps, one for each call of the model; a tool's call ends a step. The server stores no
// conversations: it derives the current step from the history in the request. Texts may contain {{turn}}, {{calls}},
// {{prompt}}, {{first_prompt}}, {{last_result}} and {{model}}. A [Script] sets steps for prompts without directives.
// If neither applies, the answer is "fake reply to: " and the prompt.
//
// Every call of a conversation reports different numbers of tokens, so that tests notice a sum that skips or repeats a
// call. [Server.Totals] returns the correct sums.
package fakellm

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

// Server is one fake service.
type Server struct {
	URL string

	http     *http.Server
	ids      atomic.Int64
	mu       sync.Mutex
	script   *Script
	fails    map[string]int
	requests []Request
	totals   Totals
	released map[string]chan struct{}
	held     map[string]int
}

// New starts a service that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s, err := Open()
	if err != nil {
		t.Fatalf("fakellm: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Open starts a service for code outside of tests. The caller closes it.
func Open() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + listener.Addr().String()}
	s.Reset()
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// Close stops the service and breaks off unfinished answers.
func (s *Server) Close() error { return s.http.Close() }

// Usage counts tokens as Anthropic does: Input, CacheCreate and CacheRead do not overlap.
type Usage struct {
	Input       int `json:"input_tokens"`
	Output      int `json:"output_tokens"`
	CacheCreate int `json:"cache_creation_input_tokens"`
	CacheRead   int `json:"cache_read_input_tokens"`
}

func (u Usage) plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheCreate + v.CacheCreate, u.CacheRead + v.CacheRead}
}

// Totals holds the sums over all answered calls, without calls that failed, were cut off, or whose client went away.
// Side calls are calls of an agent outside the conversation: titles, quota checks, suggestions.
type Totals struct {
	Calls        int   `json:"calls"`
	Conversation Usage `json:"conversation"`
	SideCalls    int   `json:"side_calls"`
	Side         Usage `json:"side"`
}

// All returns the tokens of the conversation and of side calls together.
func (t Totals) All() Usage { return t.Conversation.plus(t.Side) }

// Request is one request that came in.
type Request struct {
	Path   string
	Model  string
	Side   bool
	Turn   int // number of the turn in the conversation, from 1
	Step   int // number of the step in the turn, from 0
	Prompt string
	System string  // the system prompt; only in Chat Completions
	Images []Image // of the whole conversation, in order; only in Messages and Chat Completions
	Status int
	Usage  *Usage
	Note   string // reason why the answer is incomplete; empty: it is complete
}

// Image is an image in a message of the user.
type Image struct {
	MediaType string
	Data      []byte
}

// Totals returns the sums so far.
func (s *Server) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals
}

// Requests returns the requests so far, in the order in which their answers ended.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Reset clears the recorded requests, totals, faults and releases.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.totals = nil, Totals{}
	s.fails, s.released, s.held = map[string]int{}, map[string]chan struct{}{}, map[string]int{}
}

// Use sets the script that answers prompts without directives.
func (s *Server) Use(script Script) error {
	if err := script.compile(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.fails = &script, map[string]int{}
	return nil
}

// Release ends the hold of that name for all calls, also for later ones.
func (s *Server) Release(name string) {
	gate := s.gate(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}

// WaitHeld waits until a call waits in the hold of that name.
func (s *Server) WaitHeld(t testing.TB, name string) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[name] == 0 {
			return fmt.Errorf("nobody is held at %s; asked was %+v", name, s.requests)
		}
		return nil
	})
}

func (s *Server) gate(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released[name] == nil {
		s.released[name] = make(chan struct{})
	}
	return s.released[name]
}

var errLeft = errors.New("the client went away")

// wait blocks until the hold is released or the client goes away.
func (s *Server) wait(done <-chan struct{}, name string) error {
	gate := s.gate(name)
	s.count(name, 1)
	defer s.count(name, -1)
	select {
	case <-gate:
		return nil
	case <-done:
		return errLeft
	}
}

func (s *Server) count(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] += n
}

func (s *Server) id(kind string) string { return fmt.Sprintf("%s_fake_%06d", kind, s.ids.Add(1)) }

func (s *Server) record(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	switch {
	case r.Usage == nil || r.Status != http.StatusOK || r.Note != "":
	case r.Side:
		s.totals.SideCalls++
		s.totals.Side = s.totals.Side.plus(*r.Usage)
	default:
		s.totals.Calls++
		s.totals.Conversation = s.totals.Conversation.plus(*r.Usage)
	}
}

// applies reports whether the fault under the key applies once more, and counts it. If times is zero, it always applies.
func (s *Server) applies(key string, times int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if times > 0 && s.fails[key] >= times {
		return false
	}
	s.fails[key]++
	return true
}
