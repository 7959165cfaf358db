package tool

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/template"
)

// ServerTime is the default timeout for the start of an MCP server, and for a call of its tools.
const ServerTime = time.Minute

// endGrace is the time that a server has to end after its input was closed. Then it is killed.
const endGrace = 2 * time.Second

// session is one process of an MCP server and the connection to it. The process ends with this program too: the helper
// kills a command when its connection closes.
type session struct {
	key  serverKey
	spec template.MCPServer
	wire *wire
	kill context.CancelFunc // kills the process

	ready  chan struct{} // closed when the session can be used or has failed
	failed error         // why the server could not be started
	client *sdk.ClientSession
	tools  inventory

	gone   chan struct{} // closed when the process has ended
	exit   guest.Exit
	broken error // the error of Run, if exit is not known
	stderr headTail

	// The lock of Servers guards these fields.
	users   int
	used    time.Time // when the last user left
	retired bool      // the session gets no new users
	idle    *time.Timer
}

// launch starts the process. The session owns conn.
func launch(key serverKey, spec template.MCPServer, conn guest.Conn, cmd guest.Cmd, ended func(*session)) *session {
	ctx, kill := context.WithCancel(context.Background())
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	s := &session{key: key, spec: spec, wire: newWire(in, out), kill: kill, ready: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer ended(s)
		s.exit, s.broken = conn.Run(ctx, cmd, guest.Stdio{Stdin: stdin, Stdout: stdout, Stderr: &s.stderr})
		close(s.gone)
		_, _ = stdin.Close(), stdout.Close()
		_ = conn.Close()
		kill()
	}()
	go s.initialize(ended)
	return s
}

// initialize does the handshake of the protocol and fetches the list of tools.
func (s *session) initialize(ended func(*session)) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.limit(), errTime)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "berth", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	var err error
	// The newest version of the protocol starts with a request that many servers do not know and some never answer.
	s.client, err = client.Connect(ctx, s.wire, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err == nil {
		err = s.tools.fetch(ctx, s)
	}
	if err != nil {
		s.failed = refuse("The MCP server %s could not be started: %s", s.key.server, s.why(ctx, err))
		ended(s)
		defer s.end()
	}
	close(s.ready)
}

func (s *session) limit() time.Duration { return cmp.Or(time.Duration(s.spec.Timeout), ServerTime) }

// end closes the input of the process, as the protocol demands, and kills the process after endGrace.
func (s *session) end() {
	_ = s.wire.Close()
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-s.gone:
	case <-timer.C:
		s.kill()
	}
}

// why returns the reason for a failed request as text. The exit of the process is a better reason than err.
func (s *session) why(ctx context.Context, err error) string {
	if overtime(ctx) {
		return "it did not answer in time." + s.lastWords()
	}
	if s.wire.open() {
		return "it answered with an error: " + plain(fault.Clip(err.Error(), notes/2))
	}
	if s.wire.fault != nil {
		return s.wire.fault.Error() + "."
	}
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-timer.C:
		return "it does not talk any more." + s.lastWords()
	case <-s.gone:
	}
	switch {
	case s.broken != nil:
		return "its sandbox does not run any more."
	case s.exit.Reason != "":
		return fmt.Sprintf("exit code %d: %s.", s.exit.Code, plain(fault.Clip(s.exit.Reason, notes/2))) + s.lastWords()
	}
	return fmt.Sprintf("it ended with exit code %d.", s.exit.Code) + s.lastWords()
}

// lastWords returns the stderr of the server, shortened, after a heading.
func (s *session) lastWords() string {
	text, _ := s.stderr.text(notes)
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return "\n[stderr]\n" + text
}
