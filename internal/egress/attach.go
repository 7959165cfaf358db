package egress

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// Listener is the helper inside a sandbox, as far as egress needs it: guest.Conn is one.
type Listener interface {
	// Listen listens on a port of the sandbox's loopback.
	Listen(ctx context.Context, port uint16) (net.Listener, error)
}

// Spec is the egress of one sandbox.
type Spec struct {
	Sandbox  string
	Rules    []string          // as ParseRules takes them; empty: no proxy
	Services map[string]string // as ParseServices takes them

	Log    *slog.Logger
	Meter  Meter // told of the bytes of proxy and services
	Limits Limits

	Resolver     Resolver       // as in Proxy
	Dial         DialFunc       // as in Proxy
	AllowPrivate []netip.Prefix // as in Proxy
}

// serving is what is to be served on a port inside.
type serving struct {
	port uint16
	by   interface {
		Serve(ctx context.Context, ln net.Listener) error
	}
}

// Attach opens the listeners of a spec inside a sandbox and serves them until detach, which ends every
// connection through them and returns when all is done. When ctx ends, only Attach itself does. With an
// error nothing is served; a spec that asks for nothing opens nothing.
func Attach(ctx context.Context, inside Listener, spec Spec) (detach func(), err error) {
	todo, err := spec.servings()
	if err != nil {
		return nil, err
	}
	listeners := make([]net.Listener, 0, len(todo))
	for _, s := range todo {
		ln, err := inside.Listen(ctx, s.port)
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return nil, fmt.Errorf("listen on port %d of the sandbox: %w", s.port, err)
		}
		listeners = append(listeners, ln)
	}
	return spec.serve(ctx, todo, listeners), nil
}

func (spec Spec) serve(ctx context.Context, todo []serving, listeners []net.Listener) (detach func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for i, s := range todo {
		running.Go(func() {
			if err := s.by.Serve(ctx, listeners[i]); err != nil {
				newJournal(spec.Log, spec.Sandbox).log.WarnContext(ctx, "egress ended", slog.Int("port", int(s.port)), slog.Any("error", err))
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// servings reads the spec.
func (spec Spec) servings() ([]serving, error) {
	rules, err := ParseRules(spec.Rules)
	if err != nil {
		return nil, err
	}
	services, err := ParseServices(spec.Services)
	if err != nil {
		return nil, err
	}
	var todo []serving
	if len(spec.Rules) > 0 {
		todo = append(todo, serving{ProxyPort, &Proxy{
			Sandbox: spec.Sandbox, Rules: rules,
			Resolver: spec.Resolver, Dial: spec.Dial, AllowPrivate: spec.AllowPrivate,
			Log: spec.Log, Meter: spec.Meter, Limits: spec.Limits,
		}})
	}
	for _, s := range services {
		s.Sandbox, s.Log, s.Meter, s.Limits = spec.Sandbox, spec.Log, spec.Meter, spec.Limits
		todo = append(todo, serving{s.Port, &s})
	}
	return todo, nil
}
