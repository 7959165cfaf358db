package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/coder/websocket"
)

// TerminalOptions configures a terminal.
type TerminalOptions struct {
	Size api.TermSize // zero: 80 by 24

	// Exec is the command to run; without a command, a login shell runs. Only the fields Command, Cwd, Env, User,
	// TimeoutSeconds, ExecID and Keep are used.
	Exec api.Exec

	// Attach is the id of a running terminal to attach to; Exec is then ignored. After is the offset of the first
	// output to read; nil: shortly before the end of the output.
	Attach string
	After  *int64
}

// Terminal is a connection to a terminal in a sandbox. Read returns output, and io.EOF after the command's end. Write
// sends input. One goroutine may read while another writes.
type Terminal struct {
	ExecID string // the id to attach to the terminal again
	// Notice describes changes of the sandbox's files since its last use: the restored version, and lost changes. It
	// is empty if there were none.
	Notice string

	ws     *websocket.Conn
	ctx    context.Context
	cancel context.CancelFunc
	left   []byte // output that was received and that Read has not returned yet

	mu   sync.Mutex
	exit *api.ExecExit
}

// Terminal opens a terminal, or attaches to one. Closing it does not end its command.
func (s Sandboxes) Terminal(ctx context.Context, ref string, opts TerminalOptions) (*Terminal, error) {
	const op = "open terminal"
	if opts.Size == (api.TermSize{}) {
		opts.Size = api.TermSize{Cols: 80, Rows: 24}
	}
	notice := ""
	if x := opts.Exec; opts.Attach == "" && (len(x.Command) > 0 || x.Cwd != "" || len(x.Env) > 0 || x.TimeoutSeconds > 0 || x.ExecID != "" || x.Keep > 0) {
		id, restored, err := s.startTerminal(ctx, ref, opts)
		if err != nil {
			return nil, err
		}
		opts.Attach, opts.After, notice = id, new(int64), restored
	}
	ws, err := s.dialWebSocket(ctx, path{sandboxesPath, ref, "terminal"}, opts.query(), api.TerminalProtocol)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	t := &Terminal{ws: ws, Notice: notice}
	t.ctx, t.cancel = context.WithCancel(ctx)
	if err := t.begin(); err != nil {
		_ = t.Close()
		return nil, fmt.Errorf("%s: %w", op, s.c.unreachable(err))
	}
	return t, nil
}

// startTerminal starts a terminal with a command and returns its id and notice. It uses a request with a body: environment
// variables must not be in a URL.
func (s Sandboxes) startTerminal(ctx context.Context, ref string, opts TerminalOptions) (id, notice string, err error) {
	want := opts.Exec
	want.Terminal = &opts.Size
	if len(want.Command) == 0 {
		want.Command = api.LoginShell()
	}
	stream, err := s.ExecStream(ctx, ref, want)
	if err != nil {
		return "", "", err
	}
	if _, err := stream.Next(); err != nil { // the first event has the notice
		_ = stream.Close()
		return "", "", err
	}
	return stream.ExecID, stream.Notice, stream.Close()
}

func (o TerminalOptions) query() url.Values {
	q := url.Values{"cols": {strconv.Itoa(o.Size.Cols)}, "rows": {strconv.Itoa(o.Size.Rows)}}
	if o.Attach == "" {
		if o.Exec.User != "" {
			q.Set("user", o.Exec.User)
		}
		return q
	}
	q.Set("exec_id", o.Attach)
	if o.After != nil {
		q.Set("after", strconv.FormatInt(*o.After, 10))
	}
	return q
}

// dialWebSocket opens a WebSocket with one subprotocol.
func (s Sandboxes) dialWebSocket(ctx context.Context, at path, query url.Values, protocol string) (*websocket.Conn, error) {
	target, err := at.on(s.c.base)
	if err != nil {
		return nil, err
	}
	target.RawQuery = query.Encode()
	header := http.Header{"User-Agent": {s.c.agent}}
	if s.c.key != "" {
		header.Set("Authorization", "Bearer "+s.c.key)
	}
	dial, cancel := s.c.bounded(ctx)
	defer cancel()
	ws, res, err := websocket.Dial(dial, target.String(), &websocket.DialOptions{
		HTTPClient: s.c.http, HTTPHeader: header, Subprotocols: []string{protocol},
	})
	switch {
	case err == nil:
		ws.SetReadLimit(s.c.maxAnswer)
		return ws, nil
	case res != nil && res.StatusCode != http.StatusSwitchingProtocols:
		return nil, s.c.problem(res)
	}
	return nil, s.c.unreachable(err)
}

// begin waits for the server's first message, which has the terminal's id.
func (t *Terminal) begin() error {
	for t.ExecID == "" {
		data, err := t.receive()
		if err != nil {
			return err
		}
		t.left = append(t.left, data...)
	}
	return nil
}

// Read reads output of the terminal.
func (t *Terminal) Read(p []byte) (int, error) {
	for len(t.left) == 0 {
		data, err := t.receive()
		if err != nil {
			return 0, err
		}
		t.left = data
	}
	n := copy(p, t.left)
	t.left = t.left[n:]
	return n, nil
}

// receive reads one message. It returns the output, or nothing for a control message.
func (t *Terminal) receive() ([]byte, error) {
	kind, data, err := t.ws.Read(t.ctx)
	switch {
	case err != nil && t.ended() != nil:
		return nil, io.EOF
	case websocket.CloseStatus(err) == api.CloseKeyEnded:
		return nil, fmt.Errorf("read terminal: %w", keyEnded(err))
	case err != nil:
		return nil, fmt.Errorf("read terminal: %w", err)
	case kind == websocket.MessageBinary:
		return data, nil
	}
	var word api.TerminalWord
	if err := json.Unmarshal(data, &word); err != nil {
		return nil, fmt.Errorf("read terminal: %w", err)
	}
	switch word.Type {
	case api.TermAttached:
		t.ExecID, t.Notice = word.ExecID, cmp.Or(t.Notice, word.Notice)
	case api.TermExit:
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.exit = word.ExecExit; t.exit == nil {
			t.exit = new(api.ExecExit)
		}
	}
	return nil, nil
}

// keyEnded returns the problem that the server gave as the reason for closing the terminal.
func keyEnded(err error) error {
	var closed websocket.CloseError
	if !errors.As(err, &closed) {
		return err
	}
	code, detail, _ := strings.Cut(closed.Reason, ": ")
	return api.NewProblem(api.Code(code), detail)
}

func (t *Terminal) ended() *api.ExecExit {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exit
}

// Write sends input to the terminal.
func (t *Terminal) Write(p []byte) (int, error) {
	for n := 0; n < len(p); n += termPiece {
		if err := t.ws.Write(t.ctx, websocket.MessageBinary, p[n:min(len(p), n+termPiece)]); err != nil {
			return n, fmt.Errorf("write terminal: %w", err)
		}
	}
	return len(p), nil
}

// termPiece is the maximum number of bytes in one message of input. Every server accepts this size.
const termPiece = 16 << 10

// Resize sets the size of the terminal.
func (t *Terminal) Resize(size api.TermSize) error {
	return t.say(api.TerminalWord{Type: api.TermResize, Cols: size.Cols, Rows: size.Rows})
}

// End sends SIGHUP to the processes in the terminal. Read returns their output until they have ended.
func (t *Terminal) End() error { return t.say(api.TerminalWord{Type: api.TermEnd}) }

func (t *Terminal) say(word api.TerminalWord) error {
	data, err := json.Marshal(word)
	if err == nil {
		err = t.ws.Write(t.ctx, websocket.MessageText, data)
	}
	if err != nil {
		return fmt.Errorf("control terminal: %w", err)
	}
	return nil
}

// Wait discards the remaining output and returns the exit of the command. It returns at once if Read has returned
// io.EOF.
func (t *Terminal) Wait() (api.ExecExit, error) {
	if _, err := io.Copy(io.Discard, t); err != nil {
		return api.ExecExit{}, err
	}
	if exit := t.ended(); exit != nil {
		return *exit, nil
	}
	return api.ExecExit{}, errors.New("read terminal: it was closed before the command's end")
}

// Close closes the connection. The processes in the terminal keep running.
func (t *Terminal) Close() error {
	err := t.ws.Close(websocket.StatusNormalClosure, "")
	t.cancel()
	if t.ended() != nil || errors.As(err, new(websocket.CloseError)) {
		return nil
	}
	return err
}

// CreateTerminal starts a terminal that outlives its viewers, or finds one that runs, and makes two signed URLs of its
// WebSocket. Everyone who has one of them may use it until it ends.
func (s Sandboxes) CreateTerminal(ctx context.Context, ref string, want api.CreateTerminal) (made api.SandboxTerminal, err error) {
	_, err = s.c.do(ctx, call{op: "start terminal", method: http.MethodPost, path: path{sandboxesPath, ref, "terminal"}, body: want}, &made)
	return made, err
}

// DeleteTerminals ends the terminals that CreateTerminal has started, or only the one with the id if it is not empty, and
// revokes their URLs.
func (s Sandboxes) DeleteTerminals(ctx context.Context, ref, id string) error {
	_, err := s.c.do(ctx, call{op: "end terminal", method: http.MethodDelete, path: path{sandboxesPath, ref, "terminal"}, query: terminalID(id)}, nil)
	return err
}

// StartTerminal is [Sandboxes.CreateTerminal] for the project's sandbox, which is created and started if needed.
func (p Projects) StartTerminal(ctx context.Context, id string, want api.CreateTerminal) (made api.SandboxTerminal, err error) {
	_, err = p.c.do(ctx, call{op: "start terminal", method: http.MethodPost, path: sandboxOf(id, "terminal"), body: want}, &made)
	return made, err
}

// StopTerminals is [Sandboxes.DeleteTerminals] for the project's sandbox.
func (p Projects) StopTerminals(ctx context.Context, id, terminal string) error {
	_, err := p.c.do(ctx, call{op: "end terminal", method: http.MethodDelete, path: sandboxOf(id, "terminal"), query: terminalID(terminal)}, nil)
	return err
}

func terminalID(id string) url.Values {
	if id == "" {
		return nil
	}
	return url.Values{"exec_id": {id}}
}
