// Package relay connects the client of an ACP agent, which speaks over standard input and output, to a sandbox-agent
// server in the same sandbox, which speaks over HTTP.
//
// A program that imports this package becomes the relay if it is started under the path [Program] with the argument
// [Name]. Each line of its input is posted to the server, and each message of the server's stream is a line
// of its output. The server starts an agent for each relay, and the relay ends it when its input ends.
package relay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Program is the path inside a sandbox of the program that the client runs, and Name the first argument of a program that
// becomes the relay.
const (
	Program = "/proc/self/exe"
	Name    = "berth-acp-relay"
)

// The variables that tell the relay what to do. The server's id of its agent is the turn's mark, BERTH_TURN.
const (
	AddressEnv = "BERTH_RELAY_ADDRESS" // host:port of the server
	TokenEnv   = "BERTH_RELAY_TOKEN"
	AgentEnv   = "BERTH_RELAY_AGENT" // the server's name of the agent
)

func init() {
	if len(os.Args) == 2 && os.Args[0] == Program && os.Args[1] == Name {
		os.Exit(Main(os.Stdin, os.Stdout))
	}
}

// Main relays until the input ends or the agent has ended. It returns the exit code.
func Main(in io.Reader, out io.Writer) int {
	r := &relay{
		address: os.Getenv(AddressEnv), token: os.Getenv(TokenEnv), agent: os.Getenv(AgentEnv), id: os.Getenv("BERTH_TURN"),
		out: out, http: http.Client{Transport: &http.Transport{MaxIdleConns: 4}},
	}
	err := r.run(in)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "sandbox-agent:", err)
	if errors.Is(err, errAway) && !r.prompted.Load() {
		return ExitUnreached
	}
	return 1
}

// ExitUnreached is the exit code of a relay whose server went away before the prompt reached it.
const ExitUnreached = 75

type relay struct {
	address, token, agent, id string

	http http.Client
	mu   sync.Mutex // guards out
	out  io.Writer

	prompted atomic.Bool // the prompt may have reached the server
}

const (
	// maxLine is the length in bytes of the longest message.
	maxLine = 8 << 20
	// maxPosts limits the requests that are under way.
	maxPosts = 64
	// patience is the time in which a server that is away must answer again.
	patience = 5 * time.Second
	// deleteTime limits the request that ends the agent: the server does not answer it before the agent has ended.
	deleteTime = 2 * time.Second
)

// Errors that end a relay.
var (
	errAgent = errors.New("the agent ended")
	errAway  = errors.New("the server is away")
)

func (r *relay) run(in io.Reader) error {
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancelCause(stopped)
	defer cancel(nil)
	read := make(chan error, 1)
	go func() { read <- r.post(ctx, in, cancel) }()
	streamed := make(chan error, 1)
	go func() { streamed <- r.follow(ctx) }()
	var err error
	select {
	case err = <-read:
	case err = <-streamed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	cancel(nil)
	r.end()
	return err
}

// post sends each line of the input as a request. The answers come on the stream: an answer to the request itself may
// never come, because the server gives up waiting for long prompts.
func (r *relay) post(ctx context.Context, in io.Reader, fail context.CancelCauseFunc) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	slots := make(chan struct{}, maxPosts)
	for first := true; lines.Scan(); {
		line := bytes.Clone(bytes.TrimSpace(lines.Bytes()))
		if len(line) == 0 {
			continue
		}
		if first {
			first = false
			if err := r.begin(ctx, line); err != nil {
				return err
			}
			continue
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			if err := r.send(ctx, line); err != nil && ctx.Err() == nil {
				fail(err)
			}
		}()
	}
	return lines.Err()
}

// TurnFile is the file from which the launcher of the agent takes the value of BERTH_TURN, so that the agent and its
// tools carry the mark of the turn although they are children of the server.
const TurnFile = "/tmp/.berth-turn"

// begin posts the first message, upon which the server starts the agent. Relays do this one after the other, because of
// TurnFile.
func (r *relay) begin(ctx context.Context, line []byte) error {
	lock, err := os.OpenFile(TurnFile+".lock", os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if err := os.WriteFile(TurnFile, []byte(r.id+"\n"), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	return r.send(ctx, line)
}

// beginTime limits the first request. An agent that starts slowly still answers on the stream.
const beginTime = 30 * time.Second

// send posts one message. A message that the server refuses is answered with an error, so that the client does not wait.
func (r *relay) send(ctx context.Context, line []byte) error {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	known := json.Unmarshal(line, &m) == nil
	if m.Method == "session/prompt" {
		r.prompted.Store(true)
	}
	resp, err := r.do(ctx, http.MethodPost, "?agent="+url.QueryEscape(r.agent), line, "")
	if err != nil {
		var dial *net.OpError
		if m.Method == "session/prompt" && errors.As(err, &dial) && dial.Op == "dial" {
			r.prompted.Store(false)
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil // the answer comes on the stream
		}
		return fmt.Errorf("%w: %w", errAway, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxLine))
	if resp.StatusCode < 400 || resp.StatusCode == http.StatusGatewayTimeout {
		return nil
	}
	if !known || len(m.ID) == 0 || m.Method == "" {
		return nil
	}
	why := fmt.Sprintf("sandbox-agent answered %s: %.500s", resp.Status, strings.TrimSpace(string(text)))
	reply, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32603, "message": why}})
	if err != nil {
		return err
	}
	return r.write(reply)
}

func (r *relay) do(ctx context.Context, method, query string, body []byte, last string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.address+"/v1/acp/"+url.PathEscape(r.id)+query, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	return r.http.Do(req)
}

func (r *relay) write(line []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.out.Write(append(line, '\n'))
	return err
}

// follow copies the messages of the server's stream until the agent has ended. A stream that is cut is opened again
// behind the last message.
func (r *relay) follow(ctx context.Context) error {
	last, away := "", time.Time{}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		got, err := r.stream(ctx, &last)
		switch {
		case errors.Is(err, errAgent), errors.Is(err, errAway), ctx.Err() != nil:
			return err
		case got:
			pause, away = 5*time.Millisecond, time.Time{}
		case errors.Is(err, errNotYet):
			away = time.Time{}
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > patience:
			return fmt.Errorf("%w: %w", errAway, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// errNotYet reports that the server does not know the agent, because no message was posted yet.
var errNotYet = errors.New("the server has no such agent")

// stream reads the stream once. It reports whether it got anything.
func (r *relay) stream(ctx context.Context, last *string) (got bool, err error) {
	resp, err := r.do(ctx, http.MethodGet, "", nil, *last)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusNotFound && *last == "":
		return false, errNotYet
	case resp.StatusCode == http.StatusNotFound:
		return false, fmt.Errorf("%w: another one runs, which does not know the agent", errAway)
	case resp.StatusCode != http.StatusOK:
		return false, errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), maxLine+64)
	id := ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id = value
		case "data":
			if err := r.message(value); err != nil {
				return true, err
			}
			got, *last = true, id
		}
	}
	return got, lines.Err()
}

func (r *relay) message(text string) error {
	var m struct {
		Method string `json:"method"`
	}
	if json.Unmarshal([]byte(text), &m) == nil && m.Method == "_adapter/agent_exited" {
		return errAgent
	}
	return r.write([]byte(text))
}

// end ends the agent. The server ends it when the caller hangs up.
func (r *relay) end() {
	ctx, cancel := context.WithTimeout(context.Background(), deleteTime)
	defer cancel()
	if resp, err := r.do(ctx, http.MethodDelete, "", nil, ""); err == nil {
		_ = resp.Body.Close()
	}
}
