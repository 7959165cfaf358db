package egress

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
)

// Listener is the part of the helper in a sandbox that egress needs. guest.Conn implements it.
type Listener interface {
	// Listen listens on a port of the sandbox's loopback.
	Listen(ctx context.Context, port uint16) (net.Listener, error)
}

// Spec is the egress of one sandbox. Its JSON is what another process needs to serve it.
type Spec struct {
	Sandbox  string
	Rules    []string          // see ParseRules; empty: no proxy
	Services map[string]string // see ParseServices
	Headers  *Headers          // of the services; may be nil

	Limits       Limits
	AllowPrivate []netip.Prefix // see Proxy

	// The following fields belong to one process: they are not part of a spec that is encoded.
	Log      *slog.Logger `json:"-"`
	Meter    Meter        `json:"-"` // counts the bytes of proxy and services
	Resolver Resolver     `json:"-"` // see Proxy
	Dial     DialFunc     `json:"-"` // see Proxy
}

// Attach opens the listeners of a spec inside a sandbox and serves them until detach is called. detach closes all
// connections and waits for them. The end of ctx ends only Attach, not the service. After an error nothing is served.
// An empty spec opens no listener.
func Attach(ctx context.Context, inside Listener, spec Spec) (detach func(), err error) {
	listeners, err := Listen(ctx, inside, spec)
	if err != nil {
		return nil, err
	}
	w := new(Ways)
	if err := w.Serve(spec, listeners); err != nil {
		return nil, err
	}
	return w.Close, nil
}

// Listen opens the listeners of a spec inside a sandbox. The result has one listener for each port of the spec.
func Listen(ctx context.Context, inside Listener, spec Spec) (map[uint16]net.Listener, error) {
	ways, err := spec.ways()
	if err != nil {
		return nil, err
	}
	listeners := map[uint16]net.Listener{}
	for _, port := range slices.Sorted(maps.Keys(ways)) {
		ln, err := inside.Listen(ctx, port)
		if err != nil {
			closeAll(listeners)
			return nil, fmt.Errorf("listen on port %d of the sandbox: %w", port, err)
		}
		listeners[port] = ln
	}
	return listeners, nil
}

func closeAll(listeners map[uint16]net.Listener) {
	for _, ln := range listeners {
		_ = ln.Close()
	}
}

// ways returns the servers of the spec by their ports.
func (spec Spec) ways() (map[uint16]way, error) {
	rules, err := ParseRules(spec.Rules)
	if err != nil {
		return nil, err
	}
	services, err := ParseServices(spec.Services)
	if err != nil {
		return nil, err
	}
	ways := map[uint16]way{}
	if len(spec.Rules) > 0 {
		ways[ProxyPort] = &Proxy{
			Sandbox: spec.Sandbox, Rules: rules, inForce: newInForce(rules),
			Resolver: spec.Resolver, Dial: spec.Dial, AllowPrivate: spec.AllowPrivate,
			Log: spec.Log, Meter: spec.Meter, Limits: spec.Limits,
		}
	}
	for _, s := range services {
		s.Sandbox, s.Log, s.Meter, s.Limits, s.Headers = spec.Sandbox, spec.Log, spec.Meter, spec.Limits, spec.Headers
		ways[s.Port] = &s
	}
	return ways, nil
}
