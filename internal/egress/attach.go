package egress

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// Listener is the part of the helper in a sandbox that egress needs. guest.Conn implements it.
type Listener interface {
	// Listen listens on a port of the sandbox's loopback.
	Listen(ctx context.Context, port uint16) (net.Listener, error)
}

// Spec is the egress of one sandbox.
type Spec struct {
	Sandbox  string
	Rules    []string          // see ParseRules; empty: no proxy
	Services map[string]string // see ParseServices

	Log    *slog.Logger
	Meter  Meter // counts the bytes of proxy and services
	Limits Limits

	Resolver     Resolver       // see Proxy
	Dial         DialFunc       // see Proxy
	AllowPrivate []netip.Prefix // see Proxy
}

// portServer is a port inside the sandbox and its server.
type portServer struct {
	port uint16
	by   interface {
		Serve(ctx context.Context, ln net.Listener) error
	}
}

// Attach opens the listeners of a spec inside a sandbox and serves them until detach is called. detach closes all
// connections and waits for them. The end of ctx ends only Attach, not the service. After an error nothing is served.
// An empty spec opens no listener.
func Attach(ctx context.Context, inside Listener, spec Spec) (detach func(), err error) {
	todo, err := spec.portServers()
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

func (spec Spec) serve(ctx context.Context, todo []portServer, listeners []net.Listener) (detach func()) {
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

// portServers returns the ports of the spec and their servers.
func (spec Spec) portServers() ([]portServer, error) {
	rules, err := ParseRules(spec.Rules)
	if err != nil {
		return nil, err
	}
	services, err := ParseServices(spec.Services)
	if err != nil {
		return nil, err
	}
	var todo []portServer
	if len(spec.Rules) > 0 {
		todo = append(todo, portServer{ProxyPort, &Proxy{
			Sandbox: spec.Sandbox, Rules: rules,
			Resolver: spec.Resolver, Dial: spec.Dial, AllowPrivate: spec.AllowPrivate,
			Log: spec.Log, Meter: spec.Meter, Limits: spec.Limits,
		}})
	}
	for _, s := range services {
		s.Sandbox, s.Log, s.Meter, s.Limits = spec.Sandbox, spec.Log, spec.Meter, spec.Limits
		todo = append(todo, portServer{s.Port, &s})
	}
	return todo, nil
}
