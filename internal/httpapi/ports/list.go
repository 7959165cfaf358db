package ports

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/preview"
	"github.com/berthdev/berth/internal/sandbox"
)

// addList adds the route that lists the ports that listen in a sandbox.
func (a *handlers) addList(op access.OperationFunc) {
	list := op(http.MethodGet, "/{id}/ports", "list-ports", api.ScopeRead, "List the ports that listen in a running sandbox", access.ReachProblems...)
	list.Description = "The request neither starts the sandbox nor counts as use of it."
	rest.Serve(a.Spec, list, a.listPorts)
}

const (
	tablesTime = 10 * time.Second
	tablesSize = 1 << 20 // of the kernel's tables; sockets beyond it are not listed
)

func (a *handlers) listPorts(ctx context.Context, in *access.ByRef) (*rest.Reply[api.List[api.OpenPort]], error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTime)
	defer cancel()
	h, s, err := a.Handle(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	listeners, err := Listeners(ctx, h)
	if err != nil {
		return nil, err
	}
	out := &rest.Reply[api.List[api.OpenPort]]{Body: api.List[api.OpenPort]{Items: []api.OpenPort{}}}
	for _, at := range listeners {
		out.Body.Items = append(out.Body.Items, api.OpenPort{
			Port: int(at.Port()), Address: at.Addr().String(), Path: fmt.Sprintf("/api/v1/sandboxes/%s/ports/%d/", sandbox.PublicID(s.ID), at.Port()),
		})
	}
	return out, nil
}

// Listeners returns the sockets that listen in a running sandbox, one for each port.
func Listeners(ctx context.Context, h *engine.Handle) ([]netip.AddrPort, error) {
	conn, err := h.Peek(ctx)
	if err != nil {
		return nil, access.GuestError("list ports", err)
	}
	defer conn.Close()
	var tables limited
	cmd := h.AsUser(guest.Cmd{Argv: []string{"/bin/cat", "/proc/net/tcp", "/proc/net/tcp6"}})
	if _, err := conn.Run(ctx, cmd, guest.Stdio{Stdout: &tables}); err != nil {
		return nil, access.GuestError("list ports", err)
	}
	return preview.Listeners(tables.String()), nil
}

// limited is a buffer that drops everything after tablesSize bytes.
type limited struct{ bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	_, err := l.Buffer.Write(p[:min(len(p), max(tablesSize-l.Len(), 0))])
	return len(p), err
}
