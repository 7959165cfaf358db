package egress

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
)

// Ways serves the ways out of one sandbox: the proxy and the services of a spec, each on its listener. The zero value
// serves nothing.
type Ways struct {
	mu      sync.Mutex
	ports   map[uint16]*open
	running sync.WaitGroup
}

// way is the server of one port: a Proxy or a Service.
type way interface {
	// Serve serves the listener until ctx ends, or until the listener is closed and its connections have ended.
	Serve(ctx context.Context, ln net.Listener) error
	// succeed decides what becomes of this server and its connections when next is to serve the port.
	succeed(next way) succession
}

// succession is the fate of a server whose port gets another one.
type succession int

const (
	cut   succession = iota // its connections end
	drain                   // it accepts no more connections, and finishes those it has
	keep                    // it goes on: it does already what the next one would
)

// open is a server with its listener.
type open struct {
	way
	listener net.Listener
	ended    <-chan struct{}
	end      func() // ends the server and its connections, and those of servers before it that it let drain
}

// Serve serves a spec instead of the one before. New connections follow it at once. Connections that it does not allow
// end; the others go on. It closes the listeners, of which there is one for each port of the spec, also after an error.
// An error changes nothing.
func (w *Ways) Serve(spec Spec, listeners map[uint16]net.Listener) error {
	ways, err := spec.ways()
	for port := range ways {
		if listeners[port] == nil && err == nil {
			err = fmt.Errorf("there is no listener for port %d", port)
		}
	}
	if err != nil {
		closeAll(listeners)
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for port, o := range w.ports {
		if ways[port] == nil {
			o.end()
			delete(w.ports, port)
		}
	}
	for port, next := range ways {
		w.replace(port, next, listeners[port], newJournal(spec.Log, spec.Sandbox).log)
	}
	return nil
}

// replace serves a port from now on. w.mu is held.
func (w *Ways) replace(port uint16, next way, listener net.Listener, log *slog.Logger) {
	ctx, end := context.WithCancel(context.Background())
	o := &open{next, listener, ctx.Done(), end}
	if before := w.ports[port]; before != nil {
		switch before.fate(next) {
		case keep:
			end()
			_ = listener.Close()
			return
		case drain:
			_ = before.listener.Close()
			o.end = func() { end(); before.end() }
		case cut:
			before.end()
		}
	}
	if w.ports == nil {
		w.ports = map[uint16]*open{}
	}
	w.ports[port] = o
	w.running.Go(func() {
		defer end()
		if err := next.Serve(ctx, listener); err != nil {
			log.WarnContext(ctx, "egress ended", slog.Int("port", int(port)), slog.Any("error", err))
		}
	})
}

// fate is succeed, but for a server that has failed.
func (o *open) fate(next way) succession {
	select {
	case <-o.ended:
		return cut
	default:
		return o.succeed(next)
	}
}

// Drain closes all listeners. Present connections go on; Wait waits for their end.
func (w *Ways) Drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.ports {
		_ = o.listener.Close()
	}
}

// Wait waits until every server has ended.
func (w *Ways) Wait() { w.running.Wait() }

// Close closes all listeners and connections and waits for them.
func (w *Ways) Close() {
	w.mu.Lock()
	for _, o := range w.ports {
		o.end()
	}
	w.mu.Unlock()
	w.running.Wait()
}
