package main

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/guest"
)

// dials holds two listeners, one in a sandbox and one on the host, and a contender that connects to each. The listeners
// send a greeting to each connection and close it.
type dials struct {
	inside, outside contender
	listeners       []net.Listener
}

const port = 8080

func openDials(ctx context.Context, conn guest.Conn) (*dials, error) {
	d := new(dials)
	inside, err := conn.Listen(ctx, port)
	if err != nil {
		return nil, err
	}
	d.greet(inside)
	outside, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		d.close()
		return nil, err
	}
	d.greet(outside)
	address := outside.Addr().String()
	d.inside = dial(func(ctx context.Context) (net.Conn, error) { return conn.Dial(ctx, port) })
	d.outside = dial(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	return d, nil
}

// dial returns a contender that measures only the time to connect. It reads the greeting to check the connection.
func dial(do func(context.Context) (net.Conn, error)) contender {
	return func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		c, err := do(ctx)
		took := time.Since(began)
		if err != nil {
			return 0, err
		}
		var word [len(greeting)]byte
		if _, err := c.Read(word[:]); err != nil {
			return 0, err
		}
		return took, c.Close()
	}
}

const greeting = "hello"

// greet sends the greeting to every connection of a listener, until the listener is closed.
func (d *dials) greet(l net.Listener) {
	d.listeners = append(d.listeners, l)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = strings.NewReader(greeting).WriteTo(c) // a contender without a greeting reports an error
			_ = c.Close()
		}
	}()
}

func (d *dials) close() {
	for _, l := range d.listeners {
		_ = l.Close()
	}
}
