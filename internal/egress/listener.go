package egress

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// limitedListener is a listener that limits its open connections. Further connections wait in the kernel's queue.
type limitedListener struct {
	net.Listener
	record bool          // accepted connections record their first bytes, see client.take
	slots  chan struct{} // one element for each open connection
	done   chan struct{} // closed by Close
	once   sync.Once
	err    error

	mu   sync.Mutex
	open map[*client]struct{}
}

func limitListener(ln net.Listener, conns int, record bool) *limitedListener {
	return &limitedListener{
		Listener: ln,
		record:   record,
		slots:    make(chan struct{}, conns),
		done:     make(chan struct{}),
		open:     map[*client]struct{}{},
	}
}

// Accept waits for a free slot and a connection. It retries after temporary errors, such as too few file descriptors.
func (b *limitedListener) Accept() (net.Conn, error) {
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
		if !isTemporary(err) || !b.wait(pause) {
			<-b.slots
			return nil, err
		}
	}
}

func (b *limitedListener) admit(conn net.Conn) net.Conn {
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

func (b *limitedListener) wait(pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-b.done:
		return false
	}
}

// Close closes the listener. Its connections stay open.
func (b *limitedListener) Close() error {
	b.once.Do(func() {
		close(b.done)
		b.err = b.Listener.Close()
	})
	return b.err
}

// closeConns closes every open connection that Accept returned.
func (b *limitedListener) closeConns() {
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

func isTemporary(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// client is a connection from a sandbox. It records its first bytes until take is called, because net/http does not
// return the original head of a request.
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

// take returns the recorded bytes and ends the recording.
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
