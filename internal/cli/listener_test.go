package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
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
