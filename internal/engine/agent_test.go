package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

// The stand-in for an agent's server is this binary in the role "agent": it answers HTTP, keeps its
// sessions in memory, and says in a file where it is.
const agentFileEnv = "BERTH_ENGINE_AGENT"

func playAgent() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	var sessions sync.Map
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("PUT /session/{id}", func(_ http.ResponseWriter, r *http.Request) { sessions.Store(r.PathValue("id"), true) })
	mux.HandleFunc("GET /session/{id}", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := sessions.Load(r.PathValue("id")); !ok {
			http.Error(w, "no such session", http.StatusNotFound)
		}
	})
	path := os.Getenv(agentFileEnv)
	if err := os.WriteFile(path+".new", fmt.Appendf(nil, "%d %d", os.Getpid(), l.Addr().(*net.TCPAddr).Port), 0o600); err != nil {
		return fail(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fail(err)
	}
	return fail(http.Serve(l, mux))
}

// staffed is a fake driver whose one instance has a real helper, with real processes.
type staffed struct {
	driver.Driver // the fake one
	driver.Stopper
	t      *testing.T
	mu     sync.Mutex
	helper *guesttest.Helper
}

func (s *staffed) now() *guesttest.Helper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.helper
}

func (s *staffed) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	st, err := s.Inspect(ctx, id)
	if err == nil && st.Phase != driver.PhaseRunning {
		err = driver.ErrNotRunning
	}
	return s.now().Connect(s.t), err
}

func (s *staffed) Output(context.Context, driver.ID, string, int64) iter.Seq2[guest.Chunk, error] {
	return func(func(guest.Chunk, error) bool) {}
}

// Start is a new helper: whatever the old one had is gone with it.
func (s *staffed) Start(ctx context.Context, id driver.ID) (driver.Status, error) {
	helper := guesttest.NewHelper(s.t)
	s.mu.Lock()
	s.helper = helper
	s.mu.Unlock()
	return s.Stopper.Start(ctx, id)
}

// realAgent is a Prober of the stand-in. The session belongs to the conversation, not to the server.
type realAgent struct {
	s       *staffed
	session string
}

func (a *realAgent) file() string { return filepath.Join(a.s.now().Dir, "workspace", "agent") }

// whereabouts are the process and the port of the server.
func (a *realAgent) whereabouts() (pid, port int, err error) {
	text, err := os.ReadFile(a.file())
	if err == nil {
		_, err = fmt.Sscan(string(text), &pid, &port)
	}
	return pid, port, err
}

func (a *realAgent) ask(ctx context.Context, conn guest.Conn, method, path string) error {
	_, port, err := a.whereabouts()
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return conn.Dial(ctx, uint16(port))
	}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func (a *realAgent) Probe(ctx context.Context, _ sandbox.Sandbox, conn guest.Conn) error {
	if err := a.ask(ctx, conn, http.MethodGet, "/health"); err != nil {
		return err
	}
	return a.ask(ctx, conn, http.MethodGet, "/session/"+a.session)
}

// Heal starts the server if it does not answer, and a session if it knows ours no more.
func (a *realAgent) Heal(ctx context.Context, _ sandbox.Sandbox, conn guest.Conn) (replaced int, err error) {
	for try := 0; a.ask(ctx, conn, http.MethodGet, "/health") != nil; try++ {
		if try == 0 {
			_ = os.Remove(a.file())
			cmd := guest.Cmd{Argv: []string{os.Args[0]}, Env: []string{roleEnv + "=agent", agentFileEnv + "=" + a.file()}}
			if err := conn.Start(ctx, store.NewID(), cmd); err != nil {
				return 0, err
			}
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	if a.session != "" && a.ask(ctx, conn, http.MethodGet, "/session/"+a.session) == nil {
		return 0, nil
	}
	if a.session != "" {
		replaced = 1
	}
	a.session = store.NewID()
	return replaced, a.ask(ctx, conn, http.MethodPut, "/session/"+a.session)
}

// A real process is killed with kill -9, then the helper that could start it again, then both: each time
// the sandbox is back with an agent that answers, and a session lost is a session replaced.
func TestKilledAgentIsBack(t *testing.T) {
	testkit.Proves(t, "O4")
	var j journal
	a := &realAgent{s: &staffed{t: t, helper: guesttest.NewHelper(t)}}
	srv := onSQLite(t).open(t, withJournal(&j), func(o *engine.Options) {
		a.s.Driver = o.Drivers["fake"]
		a.s.Stopper, _ = driver.As[driver.Stopper](a.s.Driver)
		o.Drivers = map[string]driver.Driver{"fake": a.s}
		o.Prober, o.HealPoll = a, 10*time.Millisecond
		o.Policy = func(sandbox.Sandbox) sandbox.Policy {
			return sandbox.Policy{ProbeAgain: 50 * time.Millisecond, Backoff: sandbox.Backoff{Base: time.Millisecond, Max: time.Millisecond, Attempts: 3}}
		}
	})
	s := srv.ensure(t, project("a"))
	h := srv.Handle("default", s.ID, "test")
	for i, c := range []struct {
		name          string
		agent, helper bool
	}{{"agent", true, false}, {"helper", false, true}, {"both", true, true}, {"agent again", true, false}} {
		pid, _, err := a.whereabouts()
		if err != nil {
			t.Fatal(err)
		}
		if c.agent {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if c.helper {
			a.s.now().Kill(t)
		}
		began := time.Now()
		got, err := h.Reconcile(t.Context())
		if err != nil || got.State != sandbox.Running || got.Instance != s.Instance {
			t.Fatalf("%s: %s with %s, %v", c.name, got.State, got.Instance, err)
		}
		t.Logf("%s: back after %s", c.name, time.Since(began).Round(time.Millisecond))
		if l, err := srv.Inspect(t.Context(), got); err != nil || !l.Healthy() {
			t.Errorf("%s: %+v, %v", c.name, l.Seen, err)
		}
		if now, _, err := a.whereabouts(); err != nil || now == pid {
			t.Errorf("%s: the agent is process %d, was %d: %v", c.name, now, pid, err)
		}
		if n := len(j.entries(telemetry.EventSessionReplaced)); n != i+1 {
			t.Errorf("%s: %d sessions were replaced", c.name, n)
		}
		if c.helper { // the processes of the dead helper have no parent
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if history := srv.history(t, s.ID); !strings.Contains(history, "unhealthy") || !strings.Contains(history, "starting") {
		t.Errorf("the history tells %s", history)
	}
	if n := counted(t, srv.Options().Metrics, "health_retries_total"); n < 4 || n != len(j.entries(telemetry.EventHealthRetry)) {
		t.Errorf("%s health checks were repeated", strconv.Itoa(n))
	}
}

// wrapStepErr is a sandbox's history, oldest first, as the states it went through.
func (s *server) history(t *testing.T, id string) string {
	t.Helper()
	items, _, err := s.db.In("default").History(t.Context(), id, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, item := range items {
		if item.Event != "" {
			states = append([]string{string(item.To)}, states...)
		}
	}
	return strings.Join(states, " ")
}
