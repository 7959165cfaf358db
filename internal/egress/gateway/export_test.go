package gateway

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// NewWith is New with another protocol.
func NewWith(o Options, protocol int) (*Client, error) { return newClient(o, protocol) }

// ServeForTest serves within the test's process, as the egress process does, until it is not needed any more.
func ServeForTest(t testing.TB, path string) (ended <-chan struct{}) {
	t.Helper()
	d, err := openDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	l, err := d.listen(socketName(protocol))
	if err != nil {
		t.Fatal(err)
	}
	socket, err := copyOf(l)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := Serve(socket, os.Geteuid()); err != nil {
			t.Error(err)
		}
	}()
	return done
}

// Raw sends bytes to the process and returns its answer.
func Raw(t testing.TB, path, text string) string {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(path, socketName(protocol)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte(text)) // a message that is too long is not read to its end
	_ = c.(*net.UnixConn).CloseWrite()
	answer := make([]byte, 4096)
	n, _ := c.Read(answer)
	return string(answer[:n])
}

// CopyOf is copyOf.
func CopyOf(l net.Listener) (*os.File, error) { return copyOf(l) }

// ShareOf is the number of connections that one listener may have.
func ShareOf(files uint64) int { return shareOf(files) }
