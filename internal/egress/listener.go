package egress

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// bounded is a listener with at most so many connections open; further ones wait in the kernel's queue.
type bounded struct {
	net.Listener
	record bool // whether connections remember their first bytes
	slots  chan struct{}
	done   chan struct{}
	once   sync.Once
	err    error

	mu   sync.Mutex
	open map[*client]struct{}
}

func bound(ln net.Listener, conns int, record bool) *bounded {
	return &bounded{
		Listener: ln,
		record:   record,
		slots:    make(chan struct{}, conns),
		done:     make(chan struct{}),
		open:     map[*client]struct{}{},
	}
}

// Accept waits for a free slot and a connection. A shortage of descriptors passes; it is waited out.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.done:
		return nil, net.ErrClosed
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		c, err := b.Listener.Accept()
		if err == nil {
			return b.admit(c), nil
		}
		if !passing(err) || !b.wait(pause) {
			<-b.slots
			return nil, err
		}
	}
}

func (b *bounded) admit(conn net.Conn) net.Conn {
	c := &client{Conn: conn, recording: b.record}
	c.release = func() {
		b.mu.Lock()
		delete(b.open, c)
		b.mu.Unlock()
		<-b.slots
	}
	b.mu.Lock()
	b.open[c] = struct{}{}
	b.mu.Unlock()
	return c
}

func (b *bounded) wait(pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-b.done:
		return false
	}
}

// Close closes the listener, and no connection.
func (b *bounded) Close() error {
	b.once.Do(func() {
		close(b.done)
		b.err = b.Listener.Close()
	})
	return b.err
}

// closeConns closes every connection that came from here.
func (b *bounded) closeConns() {
	b.mu.Lock()
	var open []*client
	for c := range b.open {
		open = append(open, c)
	}
	b.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// client is a connection from inside. It can remember the bytes it read until somebody takes them:
// net/http does not tell everything that stood in a request's head.
type client struct {
	net.Conn
	release func()
	once    sync.Once

	mu        sync.Mutex
	recording bool
	first     []byte
}

func (c *client) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	if c.recording {
		c.first = append(c.first, p[:n]...)
	}
	c.mu.Unlock()
	return n, err
}

// take returns the first bytes and forgets them.
func (c *client) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.first
	c.first, c.recording = nil, false
	return first
}

func (c *client) CloseWrite() error { return closeWrite(c.Conn) }

func (c *client) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}
