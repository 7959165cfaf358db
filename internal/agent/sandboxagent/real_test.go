package sandboxagent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/acp/relay"
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
	h.Start(t, agenttest.Turn(h.Say("other"))) // asks the server, whose answer then counts for two seconds
	kill(t, conn)
	o := h.Do(t, agenttest.Next(turn, h.Say("second")))
	if o.End.Status != api.TurnCompleted || !strings.Contains(o.Text(), "second") {
		t.Errorf("%+v %q", o.End, o.Text())
	}
	kill(t, conn)
	if err := server.Probe(t.Context(), s, conn); err == nil {
		t.Error("a dead server is healthy")
	}
}

// A server that dies after it was found healthy, but before it has the prompt, costs a turn one attempt, and the agent gets
// the prompt once.
func TestServerThatDiesBeforeThePromptIsTriedAgain(t *testing.T) {
	testkit.Proves(t, "T12")
	t.Parallel()
	h, _ := harness(t)
	turn := agenttest.Turn(h.Exec("echo asked >>asked"))
	if o := h.Do(t, agenttest.Turn(h.Say("first"))); o.End.Status != api.TurnCompleted {
		t.Fatalf("%+v", o.End)
	}
	conn, err := h.Box.Guest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The relay waits for the lock before its first request.
	lock := guest.Cmd{Argv: []string{"flock", relay.TurnFile + ".lock", "sh", "-c", "echo locked; read line"}, User: guest.Agent}
	stdin, release := io.Pipe()
	locked, held := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := conn.Run(t.Context(), lock, guest.Stdio{Stdin: stdin, Stdout: held})
		done <- err
	}()
	if line, err := bufio.NewReader(locked).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("take the lock: %q, %v", line, err)
	}
	h.Start(t, turn)
	kill(t, conn)
	_ = release.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	o := h.Read(t, turn, agent.Cursor{})
	if o.End.Status != api.TurnInterrupted || !o.End.Again {
		t.Fatalf("%+v", o.End)
	}
	turn.Attempt++
	if o = h.Do(t, turn); o.End.Status != api.TurnCompleted {
		t.Errorf("%+v", o.End)
	}
	if text, _ := h.File(t, "working_dir", "asked"); text != "asked\n" {
		t.Errorf("the agent ran %q", text)
	}
}

// kill kills the server, and waits until its end is known.
func kill(t *testing.T, conn guest.Conn) {
	t.Helper()
	exit, err := conn.Run(t.Context(), guest.Cmd{Argv: []string{"pkill", "-9", "-f", "/opt/sandbox_agent/"}, User: guest.Agent}, guest.Stdio{})
	if err != nil || exit.Code != 0 {
		t.Fatalf("kill the server: %+v, %v", exit, err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		all, err := conn.Processes(t.Context())
		for _, p := range all {
			if p.Exit == nil && strings.HasPrefix(p.ID, "agent-server-") {
				return fmt.Errorf("%s runs", p.ID)
			}
		}
		return err
	})
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
