package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of the messages of a server.
const (
	maxFrame    = 4 << 20          // bytes of one message
	maxReceived = 16 << 20         // bytes from one call to the next
	maxRequests = 1_000            // requests by the server
	writeTime   = 30 * time.Second // the timeout for the server to read a message
)

// wire exchanges messages with a server, one on a line. It skips lines that are not messages, because many programs
// print something before they start. It ignores notifications, except those about progress and changes of the tools.
type wire struct {
	in   io.WriteCloser
	out  io.ReadCloser
	from *bufio.Reader

	writing  chan struct{} // a lock: holds a token during Write
	received atomic.Int64  // bytes since the last call
	requests int           // number of requests by the server
	changed  atomic.Bool   // the server has announced a change of its tools
	tokens   atomic.Int64  // number of progress tokens that were used
	reports  sync.Map      // progress token to the func(Progress) of a running call

	once   sync.Once
	closed chan struct{}
	fault  error // the server's mistake for which the wire was closed, or nil
}

func newWire(in io.WriteCloser, out io.ReadCloser) *wire {
	return &wire{in: in, out: out, from: bufio.NewReaderSize(out, 16<<10), writing: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Connect returns w itself. It implements sdk.Transport.
func (w *wire) Connect(context.Context) (sdk.Connection, error) { return w, nil }

// SessionID returns "": the connection has no id.
func (w *wire) SessionID() string { return "" }

// Close ends reading and writing.
func (w *wire) Close() error { return w.shut(nil) }

func (w *wire) shut(fault error) error {
	w.once.Do(func() {
		w.fault = fault
		close(w.closed)
		_ = w.in.Close()
		_ = w.out.Close()
	})
	return fault
}

// open reports whether messages can be sent.
func (w *wire) open() bool {
	select {
	case <-w.closed:
		return false
	default:
		return true
	}
}

// Read waits for the next message that the protocol's implementation has to handle.
func (w *wire) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := w.line()
		if err != nil {
			_ = w.shut(nil)
			return nil, err
		}
		msg, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			continue
		}
		req, ok := msg.(*jsonrpc.Request)
		switch {
		case !ok:
			return msg, nil
		case !req.IsCall():
			switch req.Method {
			case "notifications/tools/list_changed":
				w.changed.Store(true)
			case "notifications/progress":
				w.progress(req.Params)
			}
		case w.requests == maxRequests: // each request is kept in memory until the server reads the answer
			return nil, w.shut(errors.New("it asked for more than it was asked"))
		default:
			w.requests++
			return msg, nil
		}
	}
}

func (w *wire) line() (line []byte, err error) {
	for {
		part, err := w.from.ReadSlice('\n')
		if w.received.Add(int64(len(part))) > maxReceived {
			return nil, w.shut(fmt.Errorf("it wrote more than %d MiB at a time", maxReceived>>20))
		}
		if len(line)+len(part) > maxFrame {
			return nil, w.shut(fmt.Errorf("it wrote a message of more than %d MiB", maxFrame>>20))
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Write sends a message to the server. It closes the wire if the server does not read the message within writeTime.
func (w *wire) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	select {
	case w.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.closed:
		return io.ErrClosedPipe
	}
	defer func() { <-w.writing }()
	stop := context.AfterFunc(ctx, func() { _ = w.shut(errors.New("it does not read its input")) })
	defer stop()
	_, err = w.in.Write(append(data, '\n'))
	return err
}
