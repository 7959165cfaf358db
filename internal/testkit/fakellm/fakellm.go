// Package fakellm is a stand-in for a language model's service: it speaks the wire protocols that agents use
// (Anthropic's Messages, OpenAI's Chat Completions and Responses; streamed and not) and answers by what the
// prompt itself says, so that real agents run from end to end without a model, an account or a network.
//
// [New] starts one for a test. A prompt says what to answer with directives:
//
//	go [[say Running.]][[bash echo hi]][[say It printed {{last_result}}]]
//
//	[[say TEXT]] [[think TEXT]]       a text or a thinking block
//	[[bash CMD]] [[write PATH :: TEXT]] [[read PATH]]  a call of the agent's own tool of that kind
//	[[tool NAME {json}]]              any tool by name
//	[[next]]                          end the step, so that two calls are not in one message
//	[[error 529]] [[error 529 x2]]    fail with that status, always or the first n times
//	[[cut N]] [[sse_error N]] [[faults N]]  drop the stream, or fail in it, after N events; only the first faults times
//	[[delay 2s]] [[pace 50ms]] [[chunk 4]]  wait before the first byte, between deltas; runes in a delta
//	[[hold NAME]] [[hold NAME@3]]     wait, at the start or after 3 events, for Release(NAME)
//	[[usage in=1 out=2 cw=3 cr=4]]    the tokens of the step
//	[[stop max_tokens]]               the reason for its end
//
// A turn is a list of steps, one for each call of the model; a tool's call ends a step. The server keeps no
// conversation: it works out where it is from the history in the request. Texts may name {{turn}}, {{calls}},
// {{prompt}}, {{first_prompt}}, {{last_result}} and {{model}}. A [Script] has the same steps by rule. Without
// either the answer is "fake reply to: " and the prompt.
//
// Every call of a conversation reports other tokens, so that a sum that skips or repeats one shows;
// [Server.Totals] is the truth to check a count against.
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

// Server is one such service.
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

// Open starts a service for a program that is no test.
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

// Close ends the service and every answer under way.
func (s *Server) Close() error { return s.http.Close() }

// Usage is tokens as Anthropic counts them: the three figures of the input are disjoint.
type Usage struct {
	Input       int `json:"input_tokens"`
	Output      int `json:"output_tokens"`
	CacheCreate int `json:"cache_creation_input_tokens"`
	CacheRead   int `json:"cache_read_input_tokens"`
}

func (u Usage) plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheCreate + v.CacheCreate, u.CacheRead + v.CacheRead}
}

// Totals is what the answered calls add up to. Calls that failed, were cut, or were left by the client are not
// in it. Side calls are those that agents make beside the conversation: titles, quota checks, suggestions.
type Totals struct {
	Calls        int   `json:"calls"`
	Conversation Usage `json:"conversation"`
	SideCalls    int   `json:"side_calls"`
	Side         Usage `json:"side"`
}

// All is the tokens of both.
func (t Totals) All() Usage { return t.Conversation.plus(t.Side) }

// Request is one request that came in.
type Request struct {
	Path   string
	Model  string
	Side   bool
	Turn   int // the number of the user's turn
	Step   int
	Prompt string
	Status int
	Usage  *Usage
	Note   string // what kept it from being answered whole
}

// Totals is what was used so far.
func (s *Server) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals
}

// Requests is what was asked so far, in the order of the answers' ends.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Reset forgets requests, totals, faults and releases.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.totals = nil, Totals{}
	s.fails, s.released, s.held = map[string]int{}, map[string]chan struct{}{}, map[string]int{}
}

// Use answers by a script where a prompt has no directives.
func (s *Server) Use(script Script) error {
	if err := script.compile(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.fails = &script, map[string]int{}
	return nil
}

// Release lets the calls go that wait on a hold of that name, and those to come.
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

// WaitHeld waits until a call waits on a hold of that name.
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

// wait waits at a hold.
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

func (s *Server) note(r Request) {
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

// failing counts one more failure under a key, and tells whether there is to be one.
func (s *Server) failing(key string, times int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if times > 0 && s.fails[key] >= times {
		return false
	}
	s.fails[key]++
	return true
}
