package remote

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tableHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// socketTable writes a table of the kernel's, of the words address:port, state and user.
func socketTable(t *testing.T, rows ...string) string {
	t.Helper()
	text := tableHead
	for i, row := range rows {
		w := strings.Fields(row)
		text += fmt.Sprintf("%4d: %s 00000000:0000 %s 00000000:00000000 00:00000000 00000000 %5s        0 1\n", i, w[0], w[1], w[2])
	}
	path := filepath.Join(t.TempDir(), "tcp")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhoMayHaveTheKeptKey(t *testing.T) {
	const (
		v4loop, v4all = "0100007F:1B9E", "00000000:1B9E"
		v6loop        = "00000000000000000000000001000000:1B9E"
		v6all         = "00000000000000000000000000000000:1B9E"
		mapped        = "0000000000000000FFFF00000100007F:1B9E"
	)
	for _, c := range []struct {
		name string
		peer string
		rows []string
		ok   bool
	}{
		{"root", "127.0.0.1:7070", []string{v4loop + " 0A 0"}, true},
		{"the key's owner", "127.0.0.1:7070", []string{v4loop + " 0A 1000"}, true},
		{"another user", "127.0.0.1:7070", []string{v4loop + " 0A 1001"}, false},
		{"another user on all addresses", "127.0.0.1:7070", []string{v4all + " 0A 1001"}, false},
		{"another user on all addresses of both families", "127.0.0.1:7070", []string{v6all + " 0A 1001"}, false},
		{"another user on the mapped address", "127.0.0.1:7070", []string{mapped + " 0A 1001"}, false},
		{"another user beside the owner", "127.0.0.1:7070", []string{v4loop + " 0A 1000", v4loop + " 0A 1001"}, false},
		{"the owner in front of another user's wildcard", "127.0.0.1:7070", []string{v4all + " 0A 1001", v4loop + " 0A 1000"}, true},
		{"another user in front of the owner's wildcard", "127.0.0.1:7070", []string{v4all + " 0A 1000", v4loop + " 0A 1001"}, false},
		{"the owner on IPv4, another user on IPv6", "127.0.0.1:7070", []string{v6all + " 0A 1001", v4all + " 0A 1000"}, true},
		{"IPv6", "[::1]:7070", []string{v6loop + " 0A 1000"}, true},
		{"IPv6 of another user", "[::1]:7070", []string{v4loop + " 0A 1000", v6loop + " 0A 1001"}, false},
		{"another port", "127.0.0.1:7071", []string{v4loop + " 0A 1000"}, false},
		{"a connection is not a listener", "127.0.0.1:7070", []string{v4loop + " 01 1000"}, false},
		{"unreadable rows", "127.0.0.1:7070", []string{"0100:1B9E 0A 1000", "xx:1B9E 0A 1000", "0100007F0100007F:1B9E 0A 1000"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			peer, err := net.ResolveTCPAddr("tcp", c.peer)
			if err != nil {
				t.Fatal(err)
			}
			if err := peerCheck(1000, socketTable(t, c.rows...))(peer); (err == nil) != c.ok {
				t.Errorf("%v, want it to be sent: %v", err, c.ok)
			}
		})
	}
}

func TestKeptKeyIsSentWhereTheKernelTellsNothing(t *testing.T) {
	peer := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}
	if err := peerCheck(1000, "/nosuch/tcp")(peer); err != nil {
		t.Error(err)
	}
	if err := peerCheck(1000)(&net.UnixAddr{Name: "/x"}); err == nil {
		t.Error("an address that is none was trusted")
	}
}
