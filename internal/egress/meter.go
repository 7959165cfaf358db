package egress

import (
	"net"
	"sync/atomic"
)

// Meter is told of bytes as they pass: in is what came into the sandbox, out what left it. It is called
// often and from many goroutines.
type Meter interface {
	Count(in, out int64)
}

// Traffic is a Meter that adds up. The zero value is ready.
type Traffic struct {
	In, Out atomic.Int64
}

// Count adds.
func (t *Traffic) Count(in, out int64) {
	if in != 0 {
		t.In.Add(in)
	}
	if out != 0 {
		t.Out.Add(out)
	}
}

// metered counts what passes a connection to the outside.
type metered struct {
	net.Conn
	meter Meter
}

func meter(c net.Conn, m Meter) net.Conn {
	if m == nil {
		return c
	}
	return metered{c, m}
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if n > 0 {
		m.meter.Count(int64(n), 0)
	}
	return n, err
}

func (m metered) Write(p []byte) (int, error) {
	n, err := m.Conn.Write(p)
	if n > 0 {
		m.meter.Count(0, int64(n))
	}
	return n, err
}

func (m metered) CloseWrite() error { return closeWrite(m.Conn) }

// closeWrite tells the other side that no more comes; a connection that cannot say so is closed.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
