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

// What a server may say, and how long it may take to listen.
const (
	maxFrame = 4 << 20  // bytes of one message
	maxSaid  = 16 << 20 // bytes from one call to the next
	maxAsked = 1_000    // requests of its own
	maxTake  = 30 * time.Second
)

// wire carries messages to a server and back, one on a line. Lines that are no message are passed over: many
// programs print something before they begin. So are notices, but for those of progress and of a changed list.
type wire struct {
	in   io.WriteCloser
	out  io.ReadCloser
	from *bufio.Reader

	writing chan struct{}
	said    atomic.Int64 // since the last call
	asked   int          // by the server
	changed atomic.Bool  // its list of tools, as it says
	tokens  atomic.Int64 // calls whose progress was asked for
	reports sync.Map     // token to the func(Progress) of a call under way

	once   sync.Once
	closed chan struct{}
	fault  error // why it was closed, if it was for what the server did
}

func newWire(in io.WriteCloser, out io.ReadCloser) *wire {
	return &wire{in: in, out: out, from: bufio.NewReaderSize(out, 16<<10), writing: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Connect makes it an sdk.Transport.
func (w *wire) Connect(context.Context) (sdk.Connection, error) { return w, nil }

// SessionID is for connections that have one.
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

// Read waits for a message that somebody wants.
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
		case w.asked == maxAsked: // each waits in memory until the server takes its answer
			return nil, w.shut(errors.New("it asked for more than it was asked"))
		default:
			w.asked++
			return msg, nil
		}
	}
}

func (w *wire) line() (line []byte, err error) {
	for {
		part, err := w.from.ReadSlice('\n')
		if w.said.Add(int64(len(part))) > maxSaid {
			return nil, w.shut(fmt.Errorf("it wrote more than %d MiB at a time", maxSaid>>20))
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

// Write gives the server a message. One that does not listen is as good as gone.
func (w *wire) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxTake)
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
