package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/berthdev/berth/api"
)

// Exec runs a command and returns its result once it has ended. A command that fails is not an error: the result has
// its exit code. The command is run once, even if the request is repeated. Therefore the end of the context does not
// end the command, only its own timeout does. To end a command earlier, use ExecStream and Signal.
func (s Sandboxes) Exec(ctx context.Context, ref string, want api.Exec) (result api.ExecResult, err error) {
	ctx, cancel := s.c.lasting(ctx, want.TimeoutSeconds)
	defer cancel()
	_, err = s.c.do(ctx, call{op: "run command", method: http.MethodPost, path: path{sandboxesPath, ref, "exec"}, body: want}, &result)
	return result, err
}

// longestExec is the server's time limit for a command whose request waits for its end.
const longestExec = time.Hour

// Execs lists the commands with an id that were started since the sandbox's last start, newest first.
func (s Sandboxes) Execs(ctx context.Context, ref string) ([]api.ExecStatus, error) {
	var list api.List[api.ExecStatus]
	_, err := s.c.do(ctx, call{op: "list commands", method: http.MethodGet, path: path{sandboxesPath, ref, "exec"}}, &list)
	return list.Items, err
}

// ExecStatus gets the status of a command.
func (s Sandboxes) ExecStatus(ctx context.Context, ref, execID string) (status api.ExecStatus, err error) {
	_, err = s.c.do(ctx, call{op: "read command", method: http.MethodGet, path: execPath(ref, execID)}, &status)
	return status, err
}

// WriteStdin sends input to a command that was started with OpenStdin or a terminal. It returns once the command has
// taken all of it.
func (s Sandboxes) WriteStdin(ctx context.Context, ref, execID string, data []byte) error {
	ctx, cancel := s.c.bounded(ctx)
	defer cancel()
	for len(data) > 0 {
		piece := data[:min(len(data), stdinPiece)]
		written, err := s.stdin(ctx, ref, execID, piece, nil)
		if err != nil {
			return err
		}
		data = data[min(max(written, 0), int64(len(piece))):]
	}
	return nil
}

// stdinPiece is the maximum number of bytes in one request of input. Every server accepts this size.
const stdinPiece = 256 << 10

// CloseStdin closes the input of a command.
func (s Sandboxes) CloseStdin(ctx context.Context, ref, execID string) error {
	_, err := s.stdin(ctx, ref, execID, nil, url.Values{"close": {"true"}})
	return err
}

func (s Sandboxes) stdin(ctx context.Context, ref, execID string, data []byte, query url.Values) (int64, error) {
	var out api.ExecWritten
	_, err := s.c.do(ctx, call{op: "write input", method: http.MethodPost, path: execPath(ref, execID, "stdin"), query: query, body: raw(data)}, &out)
	return out.Written, err
}

// Signal sends a signal, such as INT, TERM or KILL, to a command and the processes that it started.
func (s Sandboxes) Signal(ctx context.Context, ref, execID, signal string) error {
	_, err := s.c.do(ctx, call{op: "signal command", method: http.MethodPost, path: execPath(ref, execID, "signal"), body: api.ExecSignal{Signal: signal}}, nil)
	return err
}

// Resize sets the size of a command's terminal.
func (s Sandboxes) Resize(ctx context.Context, ref, execID string, size api.TermSize) error {
	_, err := s.c.do(ctx, call{op: "resize terminal", method: http.MethodPost, path: execPath(ref, execID, "resize"), body: size}, nil)
	return err
}

func execPath(ref, execID string, more ...string) path {
	return append(path{sandboxesPath, ref, "exec", execID}, more...)
}
