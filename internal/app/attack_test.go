package app_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// patience is how long a busy machine may take.
const patience = time.Minute

// arena is a server with real sandboxes, in a directory that everybody on this machine may enter: what
// keeps others out must be the server's own doing.
type arena struct {
	*testing.T
	public  string // a directory
	program string // the attacker
	data    string // the server's directory
	env     []string
	server  *process
	*client.Client
}

// newArena starts a server with further configuration, in TOML. Its sandboxes end with the test.
func newArena(t *testing.T, config string) *arena {
	t.Helper()
	return newArenaAt(t, "", config)
}

// newArenaAt is newArena for a server whose data is somewhere else.
func newArenaAt(t *testing.T, data, config string) *arena {
	t.Helper()
	a := &arena{T: t, public: publicDir(t)}
	a.data, a.program = cmp.Or(data, filepath.Join(a.public, "data")), a.attacker()
	file := filepath.Join(a.public, "berth.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a.env = append(local(t), "BERTH_DATA_DIR="+a.data, "BERTH_CONFIG="+file)
	a.server = start(t, a.env)
	a.Client = a.server.client(t)
	t.Cleanup(a.clear)
	return a
}

// publicDir is a temporary directory that everybody may enter, which those of testing are not.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth-attack-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// clear deletes all sandboxes and waits until nothing is left of them. It saves none: the root of a sandbox
// may have made that impossible, and a delete would then try for minutes.
func (a *arena) clear() {
	if a.server.cmd.ProcessState != nil {
		return // restart has replaced the server, and the new one is cleared
	}
	ctx := context.Background()
	for box, err := range a.Sandboxes.List(ctx, client.SandboxFilter{}) {
		if err != nil {
			a.Error(err)
			return
		}
		if err := a.Sandboxes.Delete(ctx, box.ID, client.SkipSave()); err != nil {
			a.Error(err)
		}
	}
	testkit.Eventually(a.T, patience, func() error {
		for _, pattern := range []string{"*-*-*-*-*-*", ".new/*", ".trash/*"} {
			if left, err := filepath.Glob(filepath.Join(a.data, "local", pattern)); err != nil || len(left) > 0 {
				return fmt.Errorf("left: %v, %v", left, err)
			}
		}
		return nil
	})
}

// instanceDir returns the driver's directory for a sandbox's instance. On a busy machine the first one may have failed.
func (a *arena) instanceDir(id string) string {
	a.Helper()
	s, err := a.Sandboxes.Get(a.Context(), id)
	if err != nil {
		a.Fatal(err)
	}
	return filepath.Join(a.data, "local", fmt.Sprintf("%s-%d", id, s.Incarnation))
}

// box makes a sandbox with the attacker in its workspace.
func (a *arena) box(name, template string) api.Sandbox {
	a.Helper()
	made, _, err := a.Sandboxes.Create(a.Context(), api.CreateSandbox{Name: name, Template: template})
	if err != nil {
		a.Fatal(err)
	}
	f, err := os.Open(a.program)
	if err != nil {
		a.Fatal(err)
	}
	defer f.Close()
	if _, _, err := a.Sandboxes.WriteFile(a.Context(), name, "", "attacker", f, client.WriteOptions{Mode: 0o755}); err != nil {
		a.Fatal(err)
	}
	return made
}

// run runs a command in a sandbox.
func (a *arena) run(box string, want api.Exec) api.ExecResult {
	a.Helper()
	if want.TimeoutSeconds == 0 {
		want.TimeoutSeconds = 60
	}
	res, err := a.Sandboxes.Exec(a.Context(), box, want)
	if err != nil {
		a.Fatalf("%q in %s: %v", want.Command, box, err)
	}
	return res
}

// sh runs a line of shell text in a sandbox, which must go well, and returns what it wrote.
func (a *arena) sh(box, user, line string) string {
	a.Helper()
	res := a.run(box, api.Exec{Command: api.Shell(line), User: user})
	if res.ExitCode != 0 {
		a.Fatalf("%q in %s as %s: %+v", line, box, user, res)
	}
	return res.Stdout
}

// spawn starts a command in a sandbox that runs on, and returns what it writes.
func (a *arena) spawn(box string, want api.Exec) *client.ExecStream {
	a.Helper()
	stream, err := a.Sandboxes.ExecStream(a.Context(), box, want)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = stream.Close() })
	return stream
}

// await reads a stream until it has shown a text.
func (a *arena) await(stream *client.ExecStream, text string) {
	a.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), text) {
		ev, err := stream.Next()
		if err != nil {
			a.Fatalf("no %q, only %q: %v", text, seen.String(), err)
		}
		seen.Write(ev.Data())
	}
}

// works checks that a sandbox does its work, and that it is still the run that it was.
func (a *arena) works(name string, incarnation int64) {
	a.Helper()
	res, err := a.Sandboxes.Exec(a.Context(), name, api.Exec{Command: api.Shell("echo ok"), TimeoutSeconds: 60})
	if err != nil || res.Stdout != "ok\n" {
		a.Errorf("%s does not work: %+v, %v", name, res, err)
	}
	if got, err := a.Sandboxes.Get(a.Context(), name); err != nil || got.Incarnation != incarnation || got.State != "running" {
		a.Errorf("%s: %+v, %v", name, got, err)
	}
}

// buildAttacker builds the program that tries things.
var buildAttacker = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "berth-attacker-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "attacker")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "github.com/berthdev/berth/internal/testkit/attack/cmd/attacker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the attacker: %w\n%s", err, out)
	}
	return os.ReadFile(path)
})

// attacker puts the program where everybody may run it.
func (a *arena) attacker() string {
	a.Helper()
	path := filepath.Join(a.public, "attacker")
	program, err := buildAttacker()
	if err == nil {
		err = writeProgram(path, program)
	}
	if err != nil {
		a.Fatal(err)
	}
	return path
}

// writeProgram writes a file that is executed later, and lets no process start before the file is closed. A new process
// has the open files of this one for a moment, and the kernel executes no file that a process has open for writing.
func writeProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o755)
}

// guest is the number that a sandbox's first process has on this machine.
func (a *arena) guest(name string) string {
	a.Helper()
	box, err := a.Sandboxes.Get(a.Context(), name)
	if err != nil {
		a.Fatal(err)
	}
	paths, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		a.Fatal(err)
	}
	for _, path := range paths {
		cgroup, _ := os.ReadFile(path)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if strings.Contains(string(cgroup), box.ID) && string(command) == "berth-guest\x00" {
			return filepath.Base(filepath.Dir(path))
		}
	}
	a.Fatalf("%s has no process", name)
	return ""
}

// nobody is a user of this machine whom nobody else is: not even another run of these tests.
func nobody() *syscall.Credential {
	id := uint32(200_000_000 + os.Getpid())
	return &syscall.Credential{Uid: id, Gid: id}
}

// plain runs the attacker as a plain process of this machine.
func (a *arena) plain(sys *syscall.SysProcAttr, stdin string, argv ...string) (code int, out string) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.program, argv...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr, cmd.Stdin = []string{}, "/", sys, strings.NewReader(stdin)
	data, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.Fatalf("%q: %v", argv, err)
	}
	return cmd.ProcessState.ExitCode(), string(data)
}

// victim is a process of this machine with a secret in its environment and a path in its arguments.
type victim struct {
	cmd  *exec.Cmd
	died chan struct{}
}

func (a *arena) victim(as *syscall.Credential, secret string) *victim {
	a.Helper()
	v := &victim{cmd: exec.Command(a.program, "hold", a.data), died: make(chan struct{})}
	v.cmd.Env, v.cmd.Dir = []string{"SECRET=" + secret}, "/"
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		a.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		a.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("here\n"))); err != nil {
		a.Fatal(err)
	}
	go func() { defer close(v.died); _ = v.cmd.Wait() }()
	a.Cleanup(func() { _ = v.cmd.Process.Kill(); <-v.died })
	return v
}

// alive tells whether it still runs, after every signal that was sent before has arrived.
func (v *victim) alive() bool {
	select {
	case <-v.died:
		return false
	default:
		return v.cmd.Process.Signal(syscall.Signal(0)) == nil && !zombie(v.cmd.Process.Pid)
	}
}

func zombie(pid int) bool {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.HasPrefix(rest, "Z") || rest == ""
}

// tell answers everybody who connects with a text.
func tell(t *testing.T, network, address, text string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, text+"\n")
				_, _ = io.CopyN(io.Discard, conn, 1)
			}()
		}
	}()
	return l.Addr()
}

// tellUDP answers every datagram with a text.
func tellUDP(t *testing.T, text string) net.Addr {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buf := make([]byte, 4096); ; {
			_, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo([]byte(text), from)
		}
	}()
	return conn.LocalAddr()
}
