package guesttest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/pid1"
)

// Helper is a helper without an instance: its commands are ordinary processes of this machine and this user. It
// isolates nothing.
type Helper struct {
	Dir     string // contains sock, spool, workspace and home
	command *exec.Cmd
	said    *bytes.Buffer // the helper's stderr
}

// Plain starts a Helper and returns a connection to it, for tests of packages that use guest.Conn.
func Plain(t testing.TB) *guest.Local {
	t.Helper()
	return NewHelper(t).Connect(t)
}

// NewHelper starts a helper. The helper and the processes that it started end with the test.
func NewHelper(t testing.TB) *Helper {
	t.Helper()
	h := &Helper{Dir: t.TempDir(), said: new(bytes.Buffer)}
	for _, name := range []string{"spool", "workspace", "home"} {
		if err := os.Mkdir(filepath.Join(h.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.start(); err != nil {
		t.Fatalf("start a helper: %v", err)
	}
	t.Cleanup(func() { h.stop(t) })
	return h
}

func (h *Helper) start() error {
	program, err := build()
	if err != nil {
		return err
	}
	listener, err := socketIn(h.Dir)
	if err != nil {
		return err
	}
	defer listener.Close()
	spools, err := os.Open(filepath.Join(h.Dir, "spool"))
	if err != nil {
		return err
	}
	defer spools.Close()
	h.command = exec.Command(program, filepath.Join(h.Dir, "workspace"), filepath.Join(h.Dir, "home"))
	h.command.Env = pid1.Environ()
	h.command.Stderr = h.said
	h.command.ExtraFiles = []*os.File{listener, spools}
	h.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return h.command.Start()
}

// socketIn makes the socket of a helper in a directory.
func socketIn(dir string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	socket := os.NewFile(uintptr(fd), "listener")
	at, err := os.Open(dir)
	if err != nil {
		socket.Close()
		return nil, err
	}
	defer at.Close()
	// Name the socket by the directory's descriptor: the path of a test's directory can be too long for an address.
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/sock", at.Fd())})
	if err == nil {
		err = unix.Listen(fd, 128)
	}
	if err != nil {
		socket.Close()
		return nil, os.NewSyscallError("bind", err)
	}
	return socket, nil
}

// Connect opens a connection to the helper.
func (h *Helper) Connect(t testing.TB) *guest.Local {
	t.Helper()
	dir, err := os.Open(h.Dir)
	if err != nil {
		t.Fatal(err)
	}
	conn := guest.Open(dir, guest.Options{Spools: filepath.Join(h.Dir, "spool"), Owner: -1, Root: -1})
	t.Cleanup(func() { conn.Close() })
	return conn
}

// PID returns the process id of the helper.
func (h *Helper) PID() int { return h.command.Process.Pid }

// Kill ends the helper with SIGKILL, to simulate a crash.
func (h *Helper) Kill(t testing.TB) {
	t.Helper()
	_ = h.command.Process.Kill()
	_ = h.command.Wait()
}

func (h *Helper) stop(t testing.TB) {
	if h.command.ProcessState == nil {
		conn := h.Connect(t)
		ctx, cancel := contextFor(10 * time.Second)
		defer cancel()
		if err := conn.KillAll(ctx); err != nil {
			t.Errorf("end what the helper started: %v", err)
		}
		h.Kill(t)
	}
	if h.said.Len() > 0 {
		t.Errorf("the helper said: %s", h.said)
	}
}

// build builds the helper's program once per test process and returns its path. The test's own program would be larger
// and slower, and may include the race detector. The file is removed at once; the path names an open descriptor, which
// closes with the test process.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "berth-plain-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "plain")
	cmd := exec.Command("go", "build", "-o", path, "github.com/berthdev/berth/internal/guest/guesttest/plain")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", os.NewSyscallError("open", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
})
