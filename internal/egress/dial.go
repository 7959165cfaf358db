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

// Resolver resolves names to addresses. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DialFunc connects to an address. The proxy calls it with ip:port, never with a name.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// maxAddresses limits the addresses of one name that are tried.
const maxAddresses = 8

// dialer makes all outgoing connections of the proxy. It applies the rules, the resolver and the guard.
type dialer struct {
	ctx      context.Context // when it ends, all dials are cancelled
	rules    *inForce
	guard    guard
	resolver Resolver
	dial     DialFunc
	meter    Meter
	timeout  time.Duration
}

// absolute is a Resolver that ignores the machine's search domains for names with a dot. Do not put it on the C
// library's resolver, which does not find absolute names in /etc/hosts and reads numbers as addresses.
type absolute struct{ Resolver }

func (a absolute) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.Contains(host, ".") {
		host += "."
	}
	return a.Resolver.LookupNetIP(ctx, network, host)
}

// guarded returns a DialFunc that checks each address right before the kernel connects to it.
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

// connect connects to a target. Its errors are of type *refusal.
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
	conn, err := d.dialFirst(ctx, addrs, t.port)
	if err != nil {
		return nil, unreachable(t, err)
	}
	return countBytes(conn, d.meter), nil
}

// resolve returns the addresses of a target that may be dialled. It calls the resolver once and connect dials only
// these addresses, so a later answer of the resolver has no effect.
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

// dialFirst connects to the first address that answers. Each address gets an equal share of the remaining time.
func (d *dialer) dialFirst(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, error) {
	var last error
	for i, addr := range addrs {
		conn, err := d.dialOne(ctx, netip.AddrPortFrom(addr, port), len(addrs)-i)
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

func (d *dialer) dialOne(ctx context.Context, at netip.AddrPort, remaining int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(remaining))
		defer cancel()
	}
	return d.dial(ctx, "tcp", at.String())
}

var dialPublic = guarded(guard{own: ownAddresses})

// DialPublic connects only to public addresses of other machines. It checks the address after the name was resolved,
// right before it connects, so a name that now has another address cannot bypass the check.
func DialPublic(ctx context.Context, network, address string) (net.Conn, error) {
	return dialPublic(ctx, network, address)
}
