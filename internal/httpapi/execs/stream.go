package execs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/httpapi/stream"
	"github.com/berthdev/berth/internal/readahead"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// output reads the output of a process, as Handle.Output does.
type output func(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error]

// piece is a chunk of output with the number of bytes that were lost before it.
type piece struct {
	guest.Chunk
	dropped int64
}

// start returns the offset of the piece's first byte.
func (p piece) start() int64 { return p.Next - int64(len(p.Data)) }

// followed names the output of a process from an offset on, or from the oldest output that is kept (fromOldest).
type followed struct {
	id      string
	after   int64
	resumed bool // lost output before the first piece is reported with it; otherwise it is an error
}

// maxTrims is the maximum number of consecutive attempts to read output that was removed before it was read.
const maxTrims = 100

// read yields the output to its end. If output was removed before a slow reader has read it, read continues with the
// oldest output that is kept.
func (f followed) read(ctx context.Context, from output) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		next, lost := f.after, false // offset of the next piece, and whether output before it may be lost
		for trims := 0; ; {
			at := next
			if lost {
				at = fromOldest
			}
			trimmed := false
			for chunk, err := range from(ctx, f.id, at) {
				if errors.Is(err, guest.ErrTrimmed) && (f.resumed || next != f.after) && trims < maxTrims {
					trimmed = true
					break
				}
				p := piece{Chunk: chunk}
				if err == nil {
					if lost && next >= 0 {
						p.dropped = max(p.start()-next, 0)
					}
					next, lost, trims = p.Next, false, 0
				}
				if !yield(p, err) || err != nil {
					return
				}
			}
			if !trimmed || ctx.Err() != nil {
				return
			}
			lost = true
			trims++
		}
	}
}

// execStream starts a command and streams its output. A repeat with the same Idempotency-Key attaches to the command
// that the first request started.
func (a *handlers) execStream(w http.ResponseWriter, r *http.Request, body []byte, e *execution) {
	ctx := r.Context()
	e.id = e.want.ExecID
	var claim store.Claim
	sent := r.Header.Values(middleware.IdempotencyHeader)
	if len(sent) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
		var err error
		if claim, err = a.Claims.Claim(r, sent); err != nil {
			exchange.Fail(w, r, err)
			return
		}
		if claim.Outcome == store.ClaimDone {
			a.repeatStream(w, r, claim, e)
			return
		}
		e.again, e.own = true, e.id == ""
		e.id = cmp.Or(e.id, claim.EffectID)
	}
	e.id = cmp.Or(e.id, exchange.NewID())
	err := e.start(ctx, seconds(e.want.TimeoutSeconds))
	if len(sent) > 0 {
		a.Claims.Settle(ctx, claim, store.Answer{Status: http.StatusOK, Header: map[string][]string{api.HeaderExecID: {e.id}}}, err)
	}
	if err != nil {
		exchange.Fail(w, r, access.GuestError("run command", err))
		return
	}
	a.stream(w, r, e, followed{id: e.id, resumed: true})
}

func (a *handlers) repeatStream(w http.ResponseWriter, r *http.Request, claim store.Claim, e *execution) {
	w.Header().Set(middleware.ReplayedHeader, "true")
	ids := claim.Answer.Header[api.HeaderExecID]
	if len(ids) == 0 { // the first request was not for a stream, and failed
		middleware.Send(w, claim.Answer)
		return
	}
	e.id = ids[0]
	a.attach(w, r, e, 0, false)
}

// attachExec answers GET …/stream.
func (a *handlers) attachExec(w http.ResponseWriter, r *http.Request) {
	after, end, err := resumeAt(r)
	if err == nil {
		err = checkExecID(r.PathValue("exec_id"))
	}
	var h *engine.Handle
	var s sandbox.Sandbox
	if err == nil {
		h, s, err = a.Handle(r.Context(), r.PathValue("id"))
	}
	switch {
	case err != nil:
		exchange.Fail(w, r, err)
	case end:
		w.WriteHeader(http.StatusNoContent)
	default:
		a.attach(w, r, &execution{h: h, sandbox: s, id: r.PathValue("exec_id")}, after, r.Header.Get(lastEventHeader) != "")
	}
}

// endMark is the suffix of the id of a stream's last event.
const endMark = ".end"

// lastEventHeader is the header that an EventSource sends when it connects again.
const lastEventHeader = "Last-Event-ID"

// resumeAt returns the offset to continue from. Last-Event-ID takes precedence over the query: an EventSource that
// connects again sends its first URL again.
func resumeAt(r *http.Request) (after int64, end bool, err error) {
	if err := rest.ReadQuery(r, "after"); err != nil {
		return 0, false, err
	}
	if after, end, err = lastEvent(r); err == nil && after < 0 {
		after, err = rest.Number(r, "after", 0, 1<<62, 0)
	}
	return after, end, err
}

// lastEvent returns the offset after the last event that the client has read, or -1 if the request does not have it.
// end reports that it was the last event of the stream.
func lastEvent(r *http.Request) (after int64, end bool, err error) {
	last := r.Header.Get(lastEventHeader)
	if last == "" {
		return -1, false, nil
	}
	text, end := strings.CutSuffix(last, endMark)
	after, err = strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return 0, false, exchange.InvalidField("header.Last-Event-ID", "expected the id of an event of this stream")
	}
	return after, end, nil
}

// attachBody answers POST …/exec without a command.
func (a *handlers) attachBody(w http.ResponseWriter, r *http.Request, e *execution, from *int64) {
	after, end, err := lastEvent(r)
	switch {
	case err != nil:
		exchange.Fail(w, r, err)
		return
	case end:
		w.WriteHeader(http.StatusNoContent)
		return
	case after < 0 && from != nil:
		a.attach(w, r, e, max(*from, 0), false)
	default:
		a.attach(w, r, e, max(after, 0), after >= 0)
	}
}

// attach streams the output of a command that was started before. The helper knows where the output begins and ends.
// If it does not answer, or does not know the command, attach reads the spool. If output was lost, a client that
// continues a stream (resumed) gets an event, and a client that asks for an offset gets an error.
func (a *handlers) attach(w http.ResponseWriter, r *http.Request, e *execution, after int64, resumed bool) {
	var status guest.Status
	known := e.sandbox.State == sandbox.Running
	if known {
		var err error
		status, err = e.ask(r.Context())
		known = err == nil
	}
	switch {
	case !known:
		a.attachSpool(w, r, e, after, resumed)
		return
	case after == 0 && !resumed:
		after = status.First
	case after < status.First && !resumed:
		exchange.Fail(w, r, access.GuestError("attach to command", guest.ErrTrimmed))
		return
	case after > status.End:
		exchange.Fail(w, r, beyond(r, fmt.Sprintf("the output ends at %d", status.End)))
		return
	}
	e.started = status.StartedAt
	a.stream(w, r, e, followed{id: e.id, after: after, resumed: resumed})
}

// beyond returns the error for an offset after the end. It names the field of the request that had the offset.
func beyond(r *http.Request, message string) error {
	if r.Method == http.MethodPost {
		return exchange.InvalidField("body.after", message)
	}
	return exchange.InvalidField("query.after", message)
}

// peekTime is the maximum wait for the first output of a spool; after that the stream begins without it. A spool
// without a writer has its output at once, but a running command may write nothing for long.
const peekTime = 2 * time.Second

// attachSpool streams the output in a spool.
func (a *handlers) attachSpool(w http.ResponseWriter, r *http.Request, e *execution, after int64, resumed bool) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	from := after
	if after == 0 && !resumed {
		from = fromOldest
	}
	pieces := pumpPieces(ctx, followed{id: e.id, after: from, resumed: resumed}.read(ctx, e.h.Output))
	select {
	case <-ctx.Done():
	case <-time.After(peekTime):
		a.sendPieces(ctx, w, e, after, pieces)
	case <-pieces.News:
		first, any := pieces.Peek()
		switch {
		case !any:
			a.sendPieces(ctx, w, e, after, pieces)
		case errors.Is(first.Err, guest.ErrInvalid):
			exchange.Fail(w, r, beyond(r, "the output is not that long"))
		case first.Err != nil:
			exchange.Fail(w, r, access.GuestError("attach to command", first.Err))
		default:
			a.sendPieces(ctx, w, e, first.Value.Next-int64(len(first.Value.Data)), pieces)
		}
	}
}

// stream sends events until the command has ended, the client disconnects or the server drains. The process waits for
// a slow reader, but not for a reader that reads nothing.
func (a *handlers) stream(w http.ResponseWriter, r *http.Request, e *execution, f followed) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	a.sendPieces(ctx, w, e, f.after, pumpPieces(ctx, f.read(ctx, e.h.Output)))
}

// sendPieces sends the pieces as events.
func (a *handlers) sendPieces(ctx context.Context, w http.ResponseWriter, e *execution, after int64, pieces *readahead.Reader[piece]) {
	if auth.Includes(exchange.Of(ctx).Principal.Scope, api.ScopeWrite) { // a read-only key does not keep the sandbox awake
		defer e.h.Hold(ctx, "exec")()
	}
	w.Header().Set(api.HeaderExecID, e.id)
	out := stream.NewWriter(w)
	defer out.Done()
	out.Comment()
	if out.Add("", api.ExecEvent{Type: api.EventStarted, ExecID: e.id, Notice: e.h.Notice(), Next: after}) != nil || out.Flush() != nil {
		return
	}
	stream.Relay(ctx, a.Ending, out, pieces, func(p chunk) (bool, error) { return addPiece(ctx, out, e, p) })
}

// chunk is one piece of a command's output, or the error of reading it.
type chunk = readahead.Piece[piece]

// pumpPieces reads pieces ahead. It copies the bytes of each piece, because the sequence reuses them.
func pumpPieces(ctx context.Context, seq iter.Seq2[piece, error]) *readahead.Reader[piece] {
	return readahead.Read(ctx, func(yield func(piece, error) bool) {
		for p, err := range seq {
			p.Data = bytes.Clone(p.Data)
			if !yield(p, err) {
				return
			}
		}
	}, func(p piece) int { return len(p.Data) })
}

func addPiece(ctx context.Context, out *stream.Writer, e *execution, p chunk) (last bool, err error) {
	if n := p.Value.dropped; n > 0 {
		e.dropped += n
		if err := out.Add("", api.ExecEvent{Type: api.EventDropped, Dropped: n, Next: p.Value.start()}); err != nil {
			return true, err
		}
	}
	switch {
	case p.Err != nil:
		problem := exchange.ProblemOf(ctx, access.GuestError("read output", p.Err)).Problem
		return true, out.Add("", api.ExecEvent{Type: api.EventError, Error: &problem})
	case p.Value.Exit != nil:
		e.ended()
		exit := engine.ShowExit(*p.Value.Exit, e.started)
		return true, out.Add(strconv.FormatInt(p.Value.Next, 10)+endMark, api.ExecEvent{Type: api.EventExit, Next: p.Value.Next, Dropped: e.dropped, ExecExit: &exit})
	}
	event := api.ExecEvent{Type: api.EventStdout, Next: p.Value.Next}
	if p.Value.Stream == guest.Stderr {
		event.Type = api.EventStderr
	}
	event.SetData(p.Value.Data)
	return false, out.Add(strconv.FormatInt(p.Value.Next, 10), event)
}
