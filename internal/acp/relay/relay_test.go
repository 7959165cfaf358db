package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

// server is a stand-in for sandbox-agent. It keeps all messages of its agent, as the real one does.
type server struct {
	mu      sync.Mutex
	known   bool
	sent    []string // messages on the stream
	posted  []string
	deleted int
	streams int
	cut     int    // ends each stream after so many messages; zero: never
	refuse  int    // status for posts; zero: they are taken
	drop    string // the connection of a message with this text is cut
	changed chan struct{}
}

func newServer(t *testing.T) (*server, *relay, *bytes.Buffer) {
	t.Helper()
	s := &server{changed: make(chan struct{})}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	var out bytes.Buffer
	return s, &relay{address: strings.TrimPrefix(h.URL, "http://"), token: "token", agent: "opencode", id: "turn-1", out: &out}, &out
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer token" || r.URL.Path != "/v1/acp/turn-1" {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodDelete:
		s.mu.Lock()
		s.deleted++
		s.mu.Unlock()
	default:
		s.stream(w, r)
	}
}

func (s *server) post(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.known = true
	s.posted = append(s.posted, r.URL.Query().Get("agent")+" "+string(text))
	refuse := s.refuse
	s.mu.Unlock()
	switch {
	case s.drop != "" && strings.Contains(string(text), s.drop):
		panic(http.ErrAbortHandler)
	case refuse != 0:
		http.Error(w, "cannot", refuse)
	case strings.Contains(string(text), "session/prompt"):
		<-r.Context().Done() // such a request is never answered
	}
}

// say sends messages to the client.
func (s *server) say(messages ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, messages...)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.streams++
	known, cut := s.known, s.cut
	s.mu.Unlock()
	if !known {
		http.Error(w, "unknown", http.StatusNotFound)
		return
	}
	var next int
	_, _ = fmt.Sscan(r.Header.Get("Last-Event-ID"), &next)
	w.Header().Set("Content-Type", "text/event-stream")
	for n := 0; ; {
		s.mu.Lock()
		waiting, changed := s.sent[min(next, len(s.sent)):], s.changed
		s.mu.Unlock()
		for _, m := range waiting {
			next++
			fmt.Fprintf(w, "event: message\nid: %d\ndata: %s\n\n", next, m)
			if n++; n == cut {
				return
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// Every message comes once and in order although the stream is cut again and again, and a prompt that is never answered
// holds up nothing.
func TestStreamThatIsCutLosesAndRepeatsNothing(t *testing.T) {
	testkit.Proves(t, "T4")
	s, r, out := newServer(t)
	s.cut = 3
	in, feed := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- r.run(in) }()
	fmt.Fprintln(feed, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	fmt.Fprintln(feed, `{"jsonrpc":"2.0","id":2,"method":"session/prompt"}`)
	var want strings.Builder
	for i := range 50 {
		m := fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":%d}`, i)
		want.WriteString(m + "\n")
		s.say(m)
	}
	testkit.Eventually(t, time.Minute, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if out.String() != want.String() {
			return fmt.Errorf("the output has %d bytes of %d", out.Len(), want.Len())
		}
		return nil
	})
	_ = feed.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted != 1 || s.streams < 50/3 || len(s.posted) != 2 || s.posted[0] != `opencode {"jsonrpc":"2.0","id":1,"method":"initialize"}` {
		t.Errorf("deleted %d times, %d streams, posted %q", s.deleted, s.streams, s.posted)
	}
}

func TestAgentThatEnded(t *testing.T) {
	s, r, _ := newServer(t)
	in, feed := io.Pipe()
	defer feed.Close()
	go fmt.Fprintln(feed, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	s.say(`{"jsonrpc":"2.0","method":"_adapter/agent_exited","params":{}}`)
	if err := r.run(in); err == nil || !strings.Contains(err.Error(), "the agent ended") {
		t.Error(err)
	}
}

// A message that the server refuses is answered, so that the client does not wait for ever.
func TestRefusedMessageIsAnswered(t *testing.T) {
	s, r, out := newServer(t)
	s.refuse = http.StatusRequestEntityTooLarge
	in, feed := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- r.run(in) }()
	fmt.Fprintln(feed, `{"jsonrpc":"2.0","id":7,"method":"initialize"}`)
	testkit.Eventually(t, time.Minute, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !strings.Contains(out.String(), `"id":7`) || !strings.Contains(out.String(), "413") {
			return fmt.Errorf("the output is %q", out.String())
		}
		return nil
	})
	_ = feed.Close()
	<-done
}

func TestServerThatIsAway(t *testing.T) {
	_, r, _ := newServer(t)
	r.address = "127.0.0.1:1"
	if err := r.run(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n")); err == nil {
		t.Error("a server that is away is no error")
	}
}

// A prompt that may have reached the server is not reported as one that did not.
func TestServerThatDiesWithThePrompt(t *testing.T) {
	testkit.Proves(t, "T12")
	s, r, _ := newServer(t)
	s.drop = "session/prompt"
	in := `{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"session/prompt"}` + "\n"
	for _, address := range []string{r.address, "127.0.0.1:1"} {
		r.address = address
		feed, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, in) }()
		err := r.run(feed)
		_ = w.Close()
		if !errors.Is(err, errAway) || r.prompted.Load() != (address != "127.0.0.1:1") {
			t.Errorf("at %s: prompted %t, %v", address, r.prompted.Load(), err)
		}
		r.prompted.Store(false)
	}
}
