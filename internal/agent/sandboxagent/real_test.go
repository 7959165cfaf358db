package sandboxagent_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/acp"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/agent/sandboxagent"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/acptest"
	"github.com/berthdev/berth/internal/testkit/boxtest"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// withAgent sets the agent of turns, as the template does.
type withAgent struct {
	*sandboxagent.Runtime
	name string
}

func (w withAgent) Start(ctx context.Context, h *engine.Handle, t agent.Turn) error {
	t.Agent = w.name
	return w.Runtime.Start(ctx, h, t)
}

// harness is OpenCode through a real sandbox-agent in a real sandbox.
func harness(t *testing.T) (agenttest.Harness, *sandboxagent.Server) {
	t.Helper()
	const name = "opencode"
	p, _ := profile.Find(name)
	box := boxtest.New(t, boxtest.Options{
		Mounts: []driver.Mount{
			{Source: programtest.Dir(t, name, ""), Target: p.Mount()},
			{Source: programtest.Dir(t, "sandbox_agent", ""), Target: "/opt/sandbox_agent"},
		},
		Services: map[string]string{acptest.Inside: fakellm.New(t).URL},
		Env:      acptest.Env(name),
		Limits:   driver.Limits{MemoryBytes: 3 << 30},
	})
	server := sandboxagent.NewServer(sandboxagent.Options{
		Key:   []byte("a key of the tests"),
		Agent: func(sandbox.Sandbox) (profile.Profile, string, bool) { return p, "", true },
		Command: func(ctx context.Context, _ sandbox.Sandbox, cmd guest.Cmd) (guest.Cmd, error) {
			return box.Command(ctx, cmd)
		},
	})
	worker := acp.New()
	worker.Grace = 4 * time.Second
	read := worker.Read
	worker.Read = func(t agent.Turn, state json.RawMessage) (agent.Reader, error) { t.Agent = name; return read(t, state) }
	h := agenttest.Harness{
		Runtime: withAgent{sandboxagent.New(server, worker, acp.Job), name}, Box: box,
		Say: func(text string) string { return "§[[chunk 4]][[say " + text + "]]" },
		Write: func(path, text string) string {
			return "§[[write /workspace/" + path + " :: " + text + "]][[say done]]"
		},
		Exec:    func(command string) string { return "§[[say Running.]][[bash " + command + "]][[say done]]" },
		Session: func(id string) string { return ".berth/" + name + "/berth-sessions/" + id },
	}
	for file, text := range acptest.Files(name) {
		h.Put(t, ".berth/"+name+"/"+file, text)
	}
	return h, server
}

func TestOpenCodePassesSuite(t *testing.T) {
	testkit.Proves(t, "T4")
	t.Parallel()
	h, _ := harness(t)
	agenttest.Run(t, h)
}

// A server that died is there again before the next turn begins, and it takes no token but that of its sandbox.
func TestDeadServerIsStartedBeforeTheTurn(t *testing.T) {
	testkit.Proves(t, "T4", "T12")
	t.Parallel()
	h, server := harness(t)
	turn := agenttest.Turn(h.Say("first"))
	if o := h.Do(t, turn); o.End.Status != api.TurnCompleted || !strings.Contains(o.Text(), "first") {
		t.Fatalf("%+v %q", o.End, o.Text())
	}
	conn, err := h.Box.Guest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, err := h.Box.Sandbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if code := health(t, conn, server.Token(s)); code != http.StatusOK {
		t.Errorf("the server answers %d to its token", code)
	}
	other := s
	other.ID = "01a1f414-6a24-76f7-9b15-54f2220fbfe4"
	if code := health(t, conn, server.Token(other)); code != http.StatusUnauthorized {
		t.Errorf("the server answers %d to the token of another sandbox", code)
	}
	exit, err := conn.Run(t.Context(), guest.Cmd{Argv: []string{"pkill", "-9", "-f", "/opt/sandbox_agent/"}, User: guest.Agent}, guest.Stdio{})
	if err != nil || exit.Code != 0 {
		t.Fatalf("kill the server: %+v, %v", exit, err)
	}
	if err := server.Probe(t.Context(), s, conn); err == nil {
		t.Error("a dead server is healthy")
	}
	o := h.Do(t, agenttest.Next(turn, h.Say("second")))
	if o.End.Status != api.TurnCompleted || !strings.Contains(o.Text(), "second") {
		t.Errorf("%+v %q", o.End, o.Text())
	}
}

// A variable that changed, such as a key, reaches the next turn.
func TestChangedVariableReachesTheNextTurn(t *testing.T) {
	testkit.Proves(t, "E7")
	t.Parallel()
	h, _ := harness(t)
	turn := agenttest.Turn(h.Exec(`echo "key $ROTATED" >key`))
	before := h.Box.Env
	for _, value := range []string{"one", "two"} {
		h.Box.Env = append(slices.Clone(before), "ROTATED="+value)
		if o := h.Do(t, turn); o.End.Status != api.TurnCompleted {
			t.Fatalf("%+v", o.End)
		}
		if text, _ := h.File(t, "working_dir", "key"); text != "key "+value+"\n" {
			t.Errorf("the agent has %q, want %s", text, value)
		}
		turn = agenttest.Next(turn, turn.Prompt)
	}
}

// health asks the server for its health and returns the status of the answer.
func health(t *testing.T, conn guest.Conn, token string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return conn.Dial(ctx, sandboxagent.Port)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent/v1/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
