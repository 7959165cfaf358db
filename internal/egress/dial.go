package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// Resolver turns names into addresses. A *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DialFunc connects to an address, which was checked and is never a name.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// maxAddresses is how many addresses of one name are tried.
const maxAddresses = 8

// dialer is the one way out of the proxy: what the rules, the resolver and the guard let pass.
type dialer struct {
	ctx      context.Context // ends every dial with the proxy, whoever asked
	rules    Rules
	guard    guard
	resolver Resolver
	dial     DialFunc
	meter    Meter
	timeout  time.Duration
}

// absolute resolves names with a dot as they are, without the machine's search domains. (The C library
// does not find absolute names in /etc/hosts, and takes numbers for addresses: it is not asked.)
type absolute struct{ Resolver }

func (a absolute) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.Contains(host, ".") {
		host += "."
	}
	return a.Resolver.LookupNetIP(ctx, network, host)
}

// guarded dials and, before each connect, checks the address that the kernel is given.
func guarded(g guard) DialFunc {
	d := &net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if words := g.forbidden(at.Addr()); words != "" {
			return errors.New(words)
		}
		return nil
	}}
	return d.DialContext
}

// connect reaches a target, or fails with a *refusal.
func (d *dialer) connect(ctx context.Context, t target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	if !d.rules.allow(t) {
		return nil, notAllowed(t)
	}
	addrs, err := d.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	conn, err := d.first(ctx, addrs, t.port)
	if err != nil {
		return nil, unreachable(t, err)
	}
	return meter(conn, d.meter), nil
}

// resolve finds the addresses that may be dialled. The resolver is asked once: what it would say the
// next time does not matter.
func (d *dialer) resolve(ctx context.Context, t target) ([]netip.Addr, error) {
	all := []netip.Addr{t.host.addr}
	if !t.host.addr.IsValid() {
		var err error
		if all, err = d.resolver.LookupNetIP(ctx, "ip", t.host.text); err != nil {
			return nil, unreachable(t, err)
		}
	}
	var good []netip.Addr
	var refused error
	for _, addr := range all {
		if words := d.guard.forbidden(addr); words != "" {
			refused = forbiddenAddress(t, addr, words)
			continue
		}
		good = append(good, addr.Unmap())
	}
	switch {
	case len(good) > 0:
		return good[:min(len(good), maxAddresses)], nil
	case refused != nil:
		return nil, refused
	}
	return nil, unreachable(t, &net.DNSError{Err: "no address", Name: t.host.text, IsNotFound: true})
}

// first connects to the first address that answers, giving each its share of the time.
func (d *dialer) first(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, error) {
	var last error
	for i, addr := range addrs {
		conn, err := d.one(ctx, netip.AddrPortFrom(addr, port), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

func (d *dialer) one(ctx context.Context, at netip.AddrPort, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	return d.dial(ctx, "tcp", at.String())
}
