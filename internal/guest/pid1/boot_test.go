package pid1

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/wire"
	"github.com/berthdev/berth/internal/testkit"
)

// Here the helper serves within the test's own process, which therefore must not have other children.
func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const patience = 30 * time.Second

// serve serves in a directory until the test ends. Only one server may run at a time: it reaps every child
// of the process.
func serve(t testing.TB) (s *server, dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"spool", "workspace", "home"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	spools, err := unix.Open(filepath.Join(dir, "spool"), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err = newServer(Options{Spools: spools, Workdir: filepath.Join(dir, "workspace"), Home: filepath.Join(dir, "home"), Single: true})
	if err != nil {
		t.Fatal(err)
	}
	listener := listenIn(t, dir)
	accepting, reaping := make(chan struct{}), make(chan struct{})
	go func() { s.accept(listener); close(accepting) }()
	go func() { s.reap(); close(reaping) }()
	t.Cleanup(func() {
		listener.Close()
		<-accepting
		stop(t, s, reaping)
		wire.CloseAll([]int{spools, s.null})
		for _, fd := range s.listeners {
			unix.Close(fd)
		}
	})
	return s, dir
}

func listenIn(t testing.TB, dir string) *wire.Conn {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/sock", at.Fd())}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		t.Fatal(err)
	}
	c, err := wire.NewConn(fd)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stop ends what the server started, and it.
func stop(t testing.TB, s *server, reaping <-chan struct{}) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		s.killAll()
		s.mu.Lock()
		defer s.mu.Unlock()
		for id, p := range s.processes {
			if p.exit == nil {
				return fmt.Errorf("process %s has not ended", id)
			}
		}
		if busy := s.idle.busy.Load(); busy > 0 {
			return fmt.Errorf("%d requests are not answered", busy)
		}
		return nil
	})
	close(s.forked)
	select {
	case <-reaping:
	case <-time.After(patience):
		t.Error("somebody is left to be reaped")
	}
}

// connect is a connection to the helper in a directory.
func connect(t testing.TB, dir string) *guest.Local {
	t.Helper()
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := guest.Open(at, guest.Options{Spools: filepath.Join(dir, "spool"), Owner: -1, Root: -1})
	t.Cleanup(func() { c.Close() })
	return c
}
