package tool

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/template"
)

// ServerTime is how long an MCP server may take for its start, and for a call, unless its template says.
const ServerTime = time.Minute

// endGrace is how long a server has to end by itself, once nobody talks to it any more.
const endGrace = 2 * time.Second

// session is one process of a server and the talk with it. The process ends with its session, and also with
// this program: the helper ends what nobody waits for.
type session struct {
	key  serverKey
	spec template.MCPServer
	wire *wire
	cut  context.CancelFunc // kills the process

	ready  chan struct{} // closed once it can be used, or cannot
	failed error         // why it cannot
	client *sdk.ClientSession
	tools  inventory

	gone   chan struct{} // closed when the process has ended
	exit   guest.Exit
	broken error // why its end is not known
	stderr tape

	// Of Servers, under its lock.
	users   int
	used    time.Time // when the last of them left
	retired bool      // nobody else may use it
	idle    *time.Timer
}

// launch starts the process. It takes the connection over.
func launch(key serverKey, spec template.MCPServer, conn guest.Conn, cmd guest.Cmd, ended func(*session)) *session {
	ctx, cut := context.WithCancel(context.Background())
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	s := &session{key: key, spec: spec, wire: newWire(in, out), cut: cut, ready: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer ended(s)
		s.exit, s.broken = conn.Run(ctx, cmd, guest.Stdio{Stdin: stdin, Stdout: stdout, Stderr: &s.stderr})
		close(s.gone)
		_, _ = stdin.Close(), stdout.Close()
		_ = conn.Close()
		cut()
	}()
	go s.greet(ended)
	return s
}

// greet begins the talk.
func (s *session) greet(ended func(*session)) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.limit(), errTime)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "berth", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	var err error
	// The newest version begins with a question that many servers do not know, and some do not answer.
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

// end ends the process: first by closing its input, as the protocol has it.
func (s *session) end() {
	_ = s.wire.Close()
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-s.gone:
	case <-timer.C:
		s.cut()
	}
}

// why puts the end of a talk into words: what the process did says more than what became of its messages.
func (s *session) why(ctx context.Context, err error) string {
	if overtime(ctx) {
		return "it did not answer in time." + s.lastWords()
	}
	if s.wire.open() {
		return "it answered with an error: " + plain(clip(err.Error(), notes/2))
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
		return fmt.Sprintf("exit code %d: %s.", s.exit.Code, plain(clip(s.exit.Reason, notes/2))) + s.lastWords()
	}
	return fmt.Sprintf("it ended with exit code %d.", s.exit.Code) + s.lastWords()
}

// lastWords are the end of what the server wrote to its stderr.
func (s *session) lastWords() string {
	text, _ := s.stderr.text(notes)
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return "\n[stderr]\n" + text
}
