package egress

import (
	"net"
	"sync/atomic"
)

// Meter counts the bytes of connections: in are bytes into the sandbox, out are bytes from it. Count is called often and
// concurrently.
type Meter interface {
	Count(in, out int64)
}

// Traffic is a Meter that adds up all bytes. The zero value is ready.
type Traffic struct {
	In, Out atomic.Int64
}

// Count adds the bytes.
func (t *Traffic) Count(in, out int64) {
	if in != 0 {
		t.In.Add(in)
	}
	if out != 0 {
		t.Out.Add(out)
	}
}

// metered is a connection to the outside that counts its bytes.
type metered struct {
	net.Conn
	meter Meter
}

func countBytes(c net.Conn, m Meter) net.Conn {
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

// closeWrite closes the sending side of a connection, or the whole connection if it has no separate sides.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
