package sandboxagent

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Port is the server's port on the loopback of its sandbox.
const Port = engine.AgentPort

// Program is the server's program inside, and Install the command that installs it.
const (
	Program = "/opt/sandbox_agent/bin/sandbox-agent"
	Install = "berth template install sandbox_agent"
)

// mark is the value of BERTH_TURN in the server's process and everything that it starts.
const mark = "agent-server"

// Options configure the servers.
type Options struct {
	// Key is the root that the tokens of servers derive from.
	Key []byte
	// Agent returns the agent of a sandbox, and its permission mode. It is not ok if the sandbox needs no server.
	Agent func(s sandbox.Sandbox) (p profile.Profile, permissions string, ok bool)
	// Prompt returns the instructions that a new workspace gets; nil: the default ones.
	Prompt func(s sandbox.Sandbox) (string, error)
	// Command returns a command with the environment and the user of the sandbox.
	Command func(ctx context.Context, s sandbox.Sandbox, cmd guest.Cmd) (guest.Cmd, error)
}

// Server is the sandbox-agent server of each sandbox that needs one. It is the engine's Prober.
type Server struct {
	o Options

	mu      sync.Mutex
	healthy map[string]time.Time // the id of a server's process → the last time that it answered a turn
}

// NewServer returns the servers.
func NewServer(o Options) *Server {
	if o.Prompt == nil {
		o.Prompt = func(sandbox.Sandbox) (string, error) { return Prompt, nil }
	}
	return &Server{o: o, healthy: map[string]time.Time{}}
}

// Token returns the token of a sandbox's server. Everything in the sandbox can read it, so each has its own.
func (v *Server) Token(s sandbox.Sandbox) string {
	m := hmac.New(sha256.New, v.o.Key)
	fmt.Fprintf(m, "sandbox-agent %s %s", s.Owner.Tenant, s.ID)
	return hex.EncodeToString(m.Sum(nil))
}

// maxHealth is how much of an answer about the health is read.
const maxHealth = 4 << 10

// Probe asks the server for its health.
func (v *Server) Probe(ctx context.Context, s sandbox.Sandbox, conn guest.Conn) error {
	if _, _, ok := v.o.Agent(s); !ok {
		return nil
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return conn.Dial(ctx, Port)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/v1/health", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+v.Token(s))
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask sandbox-agent for its health: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"ok"`) {
		return fmt.Errorf("sandbox-agent is not healthy: %s", resp.Status)
	}
	return nil
}

// Heal starts the server unless it is healthy. The processes of an earlier one are ended first. Sessions are files of the
// agents, so none is replaced.
func (v *Server) Heal(ctx context.Context, s sandbox.Sandbox, conn guest.Conn) (replaced int, err error) {
	p, permissions, ok := v.o.Agent(s)
	if !ok || v.Probe(ctx, s, conn) == nil {
		return 0, nil
	}
	return 0, v.restart(ctx, s, conn, p, permissions)
}

func (v *Server) restart(ctx context.Context, s sandbox.Sandbox, conn guest.Conn, p profile.Profile, permissions string) error {
	kill, err := v.o.Command(ctx, s, agent.KillMarked(mark))
	if err != nil {
		return err
	}
	if exit, err := conn.Run(ctx, kill, guest.Stdio{}); err != nil || exit.Code != 0 {
		return fmt.Errorf("end the processes of an earlier sandbox-agent: exit %d: %w", exit.Code, err)
	}
	if err := v.writeFiles(ctx, s, conn, p); err != nil {
		return err
	}
	cmd, err := v.command(ctx, s, p, permissions)
	if err != nil {
		return err
	}
	id := processID(cmd)
	if err := conn.Start(ctx, id, cmd); err != nil {
		return fmt.Errorf("start sandbox-agent: %w", err)
	}
	return v.started(ctx, conn, id)
}

// command returns the command of the server.
func (v *Server) command(ctx context.Context, s sandbox.Sandbox, p profile.Profile, permissions string) (guest.Cmd, error) {
	return v.o.Command(ctx, s, guest.Cmd{
		Argv: []string{Program, "server", "--token", v.Token(s), "--host", "127.0.0.1", "--port", fmt.Sprint(Port), "--no-telemetry"},
		Env:  environment(p, permissions), Dir: guest.Workspace,
	})
}

// running returns the id of the process of the server that runs, or an empty string. It is outdated if the server was
// started with other variables than it would be now, and no turn runs that a restart would cut off.
func (v *Server) running(ctx context.Context, s sandbox.Sandbox, conn guest.Conn) (id string, outdated bool, err error) {
	p, permissions, ok := v.o.Agent(s)
	if !ok {
		return "", false, nil
	}
	all, err := conn.Processes(ctx)
	if err != nil {
		return "", false, err
	}
	cmd, err := v.command(ctx, s, p, permissions)
	if err != nil {
		return "", false, err
	}
	current, busy := mark+"-"+digest(cmd)+"-", false
	for _, process := range all {
		switch {
		case process.Exit != nil:
		case strings.HasPrefix(process.ID, "turn-"):
			busy = true
		case strings.HasPrefix(process.ID, mark+"-"):
			id = process.ID
			outdated = outdated || !strings.HasPrefix(id, current)
		}
	}
	return id, outdated && !busy, nil
}

// started reports a server whose program cannot be run. Such a process ends at once.
func (v *Server) started(ctx context.Context, conn guest.Conn, id string) error {
	st, err := conn.Process(id).Status(ctx)
	if err != nil || st.Exit == nil {
		return err
	}
	if st.Exit.Code == guest.ExitNotFound || st.Exit.Code == guest.ExitCannotRun {
		return fault.Errorf("start sandbox-agent", api.CodeAgentNotInstalled, "it is not installed; run: %s", Install)
	}
	return fmt.Errorf("start sandbox-agent: it ended with exit code %d", st.Exit.Code)
}

// environment returns the variables of the server. The agents that it starts inherit them.
func environment(p profile.Profile, permissions string) []string {
	env := p.Environment(permissions)
	if p.Name == openCode {
		env = append(env, "OPENCODE_CONFIG="+configFile(p))
	}
	return append(env,
		"BERTH_TURN="+mark, "SANDBOX_AGENT_REQUIRE_PREINSTALL=1",
		"PATH="+launcherDir+":"+p.Bin()+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	)
}

// note records that the process of a server answered.
func (v *Server) note(id string) {
	if id == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.healthy) > maxSeen {
		clear(v.healthy)
	}
	v.healthy[id] = time.Now()
}

// fresh reports whether the process of a server answered so recently that it need not be asked again.
func (v *Server) fresh(id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Since(v.healthy[id]) < freshFor
}

const (
	freshFor = 2 * time.Second
	maxSeen  = 10_000
)
