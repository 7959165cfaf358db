package ports

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/preview"
)

const (
	mostForwarded = 1 << 20          // bytes of one message of a client
	forwardBuffer = 64 << 10         // bytes of one message to a client
	pingEvery     = 25 * time.Second // a connection without traffic is kept by proxies for longer than this
	forwardTime   = 30 * time.Second // time for the client to take a message
)

// addForward adds the route that forwards one TCP connection.
func (a *handlers) addForward(op access.OperationFunc) {
	forward := op(http.MethodGet, "/{id}/forward/{port}", "forward-port", api.ScopeWrite, "Forward a TCP connection over a WebSocket",
		append([]api.Code{api.CodePortUnreachable, api.CodeForeignOrigin}, access.ReachProblems...)...)
	forward.Description = "Connects to 127.0.0.1:port inside the sandbox, for any protocol. Binary messages are the bytes of the connection; the text message \"" + api.ForwardEnd +
		"\" ends one direction. The subprotocol is " + api.ForwardProtocol + ". The server closes with status 4001 if the key was revoked or expired."
	forward.Timeout, forward.Also = exchange.Unlimited, map[int]string{http.StatusSwitchingProtocols: "The WebSocket of the connection"}
	forward.Accepts = []auth.Kind{auth.APIKey}
	a.ServeRaw(forward, "application/json", a.forward, rest.InPath("id", "port"))
}

// forward answers GET …/forward/{port}. The connection is made before the upgrade, so that its error can be answered.
func (a *handlers) forward(w http.ResponseWriter, r *http.Request) {
	to, h, err := a.dialPort(r)
	if err != nil {
		exchange.Fail(w, r, access.GuestError("forward port", err))
		return
	}
	defer to.Close()
	defer h.Hold(r.Context(), "forward")()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.Ending, cancel)()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.ForwardProtocol}})
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(mostForwarded)
	err = exchangeBytes(ctx, ws, to)
	switch why := exchange.KeyEnded(ctx); {
	case why != nil:
		_ = ws.Close(api.CloseKeyEnded, string(why.Code)+": "+exchange.DetailOf(why))
	case a.Ending.Err() != nil:
		_ = ws.Close(websocket.StatusGoingAway, "the server is shutting down")
	case err == nil:
		_ = ws.Close(websocket.StatusNormalClosure, "")
	}
}

func (a *handlers) dialPort(r *http.Request) (net.Conn, *engine.Handle, error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		e := fault.Errorf("forward port", api.CodeInvalidRequest, "the request is no WebSocket handshake")
		e.Hint = "'berth forward SANDBOX PORT' listens on this machine and forwards connections."
		return nil, nil, e
	}
	port, err := preview.ParseAnyPort(r.PathValue("port"))
	if err != nil {
		return nil, nil, err
	}
	h, _, err := a.Handle(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, nil, err
	}
	conn, err := h.Guest(r.Context())
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	to, err := conn.Dial(r.Context(), port)
	return to, h, err
}

// exchangeBytes copies bytes between the client and the connection until both directions have ended, or ctx ends. The
// WebSocket is open afterwards, so that its client gets a reason.
func exchangeBytes(until context.Context, ws *websocket.Conn, to net.Conn) error {
	ctx := context.WithoutCancel(until)
	ended := make(chan error, 2)
	go func() { ended <- fromClient(ctx, ws, to) }()
	go func() { ended <- toClient(ctx, ws, to) }()
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for left := 2; left > 0; {
		select {
		case <-until.Done():
			return context.Cause(until)
		case err := <-ended:
			if left--; err != nil {
				return err
			}
		case <-ping.C:
			if err := within(ctx, ws.Ping); err != nil {
				return err
			}
		}
	}
	return nil
}

func within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	return do(ctx)
}

// fromClient copies the messages of the client to the connection.
func fromClient(ctx context.Context, ws *websocket.Conn, to net.Conn) error {
	over := false
	for {
		kind, data, err := ws.Read(ctx)
		switch {
		case err != nil:
			return err
		case over: // the client has ended its direction
		case kind == websocket.MessageText && string(data) == api.ForwardEnd:
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite() // it may have ended by itself
			}
			return nil
		default:
			if _, err := to.Write(data); err != nil {
				over = true // what comes from it may still be on its way
			}
		}
	}
}

// toClient copies what comes from the connection to the client.
func toClient(ctx context.Context, ws *websocket.Conn, from net.Conn) error {
	buffer := make([]byte, forwardBuffer)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := within(ctx, func(ctx context.Context) error { return ws.Write(ctx, websocket.MessageBinary, buffer[:n]) }); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return within(ctx, func(ctx context.Context) error { return ws.Write(ctx, websocket.MessageText, []byte(api.ForwardEnd)) })
		case err != nil:
			return err
		}
	}
}
