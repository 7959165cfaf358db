package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
)

const other = 54321

// stranger listens on loopback as a user that is not root.
func stranger(t *testing.T) net.Listener {
	t.Helper()
	type outcome struct {
		listener net.Listener
		err      error
	}
	made := make(chan outcome)
	go func() {
		runtime.LockOSThread()            // and never unlocked: the thread ends with its strange identity
		_, _ = unix.SetfsuidRetUid(other) // nothing happens unless this is root
		l, err := net.Listen("tcp", "127.0.0.1:0")
		made <- outcome{l, err}
	}()
	got := <-made
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.listener
}

// strangersKey is a kept key that does not belong to the stranger: ours if we are root, else root's.
func strangersKey(t *testing.T, dir string) (uid int) {
	t.Helper()
	if os.Geteuid() == 0 {
		writeKey(t, dir, "admin.key", testKey, 0o600)
		return other
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "admin.key")); err != nil {
		t.Fatal(err)
	}
	return os.Geteuid()
}

// TestKeptKeyIsNotSentToAnotherUsersProgram: while Berth is down, any user can listen on its port.
func TestKeptKeyIsNotSentToAnotherUsersProgram(t *testing.T) {
	var requests atomic.Int32
	trap := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		reply(w, 200, api.List[api.Sandbox]{})
	}))
	_ = trap.Listener.Close()
	trap.Listener = stranger(t)
	trap.Start()
	defer trap.Close()

	dir := t.TempDir()
	uid := strangersKey(t, dir)
	named := writeKey(t, dir, "named.key", testKey, 0o600)
	s := newShell(t, nil).with("BERTH_SERVER", trap.URL)
	r := s.berth("ls", "--data-dir", dir)
	if r.code != 125 || requests.Load() != 0 {
		t.Errorf("%+v, %d requests arrived", r, requests.Load())
	}
	contains(t, "stderr", r.err, fmt.Sprintf("the key in the data directory was not sent: a program of user %d listens there", uid), "hint: Find out which program")
	if r := s.berth("ls", "--key-file", named); r.code != 0 || requests.Load() != 1 {
		t.Errorf("a key that was named: %+v, %d requests", r, requests.Load())
	}
}

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
			if err := trusted(1000, socketTable(t, c.rows...))(peer); (err == nil) != c.ok {
				t.Errorf("%v, want it to be sent: %v", err, c.ok)
			}
		})
	}
}

func TestKeptKeyIsSentWhereTheKernelTellsNothing(t *testing.T) {
	peer := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}
	if err := trusted(1000, "/nosuch/tcp")(peer); err != nil {
		t.Error(err)
	}
	if err := trusted(1000)(&net.UnixAddr{Name: "/x"}); err == nil {
		t.Error("an address that is none was trusted")
	}
}
