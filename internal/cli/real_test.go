package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// realServer is Berth itself, as a process, with the engine of this machine.
type realServer struct {
	t    *testing.T
	dir  string
	addr string
	key  string // that it is started with; empty: it makes one
	cmd  *exec.Cmd
	logs screenful
}

// newReal starts one and leaves nothing of it.
func newReal(t *testing.T) *realServer {
	t.Helper()
	return newRealWith(t, testKey)
}

func newRealWith(t *testing.T, key string) *realServer {
	t.Helper()
	r := &realServer{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", key: key}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.logs.String())
		}
	})
	r.start()
	t.Cleanup(func() {
		s := r.shell()
		if ids := strings.Fields(s.berth("ls", "-q").out); len(ids) > 0 {
			s.ok(append([]string{"rm", "-f"}, ids...)...)
		}
		r.end(syscall.SIGTERM)
	})
	return r
}

var served = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/`)

func (r *realServer) start() {
	r.t.Helper()
	r.cmd = exec.Command(testkit.Binary(r.t), "serve", "--listen", r.addr, "--data-dir", r.dir)
	r.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BERTH_API_KEY=" + r.key}
	r.cmd.Stderr = &r.logs
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at := served.FindStringSubmatch(lines.Text()); at != nil {
			r.addr = at[1]
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	r.t.Fatalf("the server did not start: %v", r.cmd.Wait())
}

func (r *realServer) end(sig syscall.Signal) {
	_ = r.cmd.Process.Signal(sig)
	_ = r.cmd.Wait()
}

func (r *realServer) shell() *shell {
	return newShell(r.t, nil).with("BERTH_SERVER", "http://"+r.addr, "BERTH_API_KEY", r.key, "BERTH_DATA_DIR", r.dir)
}

// TestOnARealMachine is the tour of the README, with real sandboxes and a server that is killed.
func TestOnARealMachine(t *testing.T) {
	testkit.Proves(t, "X6")
	real := newReal(t)
	s := real.shell()
	contains(t, "create", s.ok("create", "scratch"), "scratch is running (made in ")

	for _, c := range []struct {
		args []string
		code int
		out  string
		err  string
	}{
		{[]string{"sh", "-c", "echo out; echo err >&2; exit 7"}, 7, "out\n", "err\n"},
		{[]string{"nosuch"}, 127, "", "berth: nosuch: command not found\n"},
		{[]string{"echo hi"}, 127, "", "sh -c 'echo hi'\n"},
		{[]string{"/etc/passwd"}, 126, "", "permission denied\n"},
		{[]string{"--timeout", "1s", "--", "sleep", "60"}, 124, "", "berth: stopped after 1.0s (--timeout)\n"},
		{[]string{"id", "-u"}, 0, "1000\n", ""},
		{[]string{"-e", "A=b", "-w", "/tmp", "--", "sh", "-c", "echo $A; pwd"}, 0, "b\n/tmp\n", ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, "", ""},
	} {
		r := s.berth(append([]string{"exec", "scratch"}, c.args...)...)
		if r.code != c.code || r.out != c.out || !strings.HasSuffix(r.err, c.err) {
			t.Errorf("%q: %+v; want %+v", c.args, r, c)
		}
		r = s.berth(append([]string{"exec", "--json", "scratch"}, c.args...)...)
		if got := decode[api.ExecResult](t, r.out); r.code != c.code || got.ExitCode != c.code || got.Stdout != c.out {
			t.Errorf("%q --json: exit %d, %+v", c.args, r.code, got)
		}
	}
	t.Run("bytes", func(t *testing.T) { realBytes(t, s) })
	t.Run("files", func(t *testing.T) { realFiles(t, s) })
	t.Run("shell", func(t *testing.T) { realShell(t, s) })
	t.Run("kill -9", func(t *testing.T) { realKill(t, real) })
	s.ok("rm", "-f", "scratch")
	if r := s.berth("exec", "scratch", "true"); r.code != 125 || !strings.Contains(r.err, "'berth create scratch' makes this one") {
		t.Errorf("after rm: %+v", r)
	}
}

func realBytes(t *testing.T, s *shell) {
	odd := make([]byte, 4<<20)
	for i := range odd {
		odd[i] = byte(i * 7)
	}
	in := *s
	in.deps.Stdin = strings.NewReader(string(odd))
	if r := in.berth("exec", "-i", "scratch", "--", "cat"); r.code != 0 || r.out != string(odd) {
		t.Errorf("exit %d, %d bytes of %d, stderr %q", r.code, len(r.out), len(odd), r.err)
	}
}

func realFiles(t *testing.T, s *shell) {
	here := t.TempDir()
	fill(t, here, map[string]string{"src/a": "one", "src/sub/b": "two", "src/link": "->sub/b", "src/out": "->/etc/passwd"})
	s.ok("cp", here+"/src", "scratch:")
	if out := s.ok("exec", "scratch", "--", "cat", "src/link"); out != "two" {
		t.Errorf("inside it is %q", out)
	}
	s.ok("exec", "scratch", "--", "sh", "-c", "mkfifo src/pipe; echo made > src/made")
	contains(t, "stop", s.ok("stop", "scratch"), "stopped scratch (")
	if out := s.ok("files", "scratch", "src", "-R", "-q"); out != "a\nlink\nmade\nout\npipe\nsub\nsub/b\n" {
		t.Errorf("stopped, it lists %q", out)
	}
	if out := s.ok("cat", "scratch:src/made"); out != "made\n" {
		t.Errorf("stopped, it prints %q", out)
	}
	r := s.berth("cp", "scratch:src", here+"/back")
	if r.code != 0 || !strings.Contains(r.err, "left out out: a link that leads out of the folder") || !strings.Contains(r.err, "1 left out: pipe") {
		t.Errorf("%+v", r)
	}
	if got := seenIn(t, here+"/back"); fmt.Sprint(got) != "map[a:one link:->sub/b made:made\n sub/b:two]" {
		t.Errorf("back came %q", got)
	}
	contains(t, "ls", s.ok("ls"), "stopped")
	if out := s.ok("exec", "scratch", "--", "cat", "src/a"); out != "one" {
		t.Errorf("started again by its use, it prints %q", out)
	}
}

func realShell(t *testing.T, s *shell) {
	m := newTerminal(t)
	m.Resize(91, 17)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Wait("$ ")
		m.Type("stty size; id -un; exit 9\r")
	}()
	r := s.at(m).berth("shell", "scratch")
	<-done
	m.Wait("17 91")
	if r.code != 9 {
		t.Errorf("exit %d, screen %q", r.code, m.Text())
	}
	contains(t, "screen", m.Text(), "agent\n")
}

// realKill kills the server in the middle of a command's output, of which nothing is lost.
func realKill(t *testing.T, real *realServer) {
	s, out := real.shell(), &screenful{}
	s.deps.Stdout = out
	ended := make(chan result, 1)
	go func() {
		ended <- s.berth("exec", "scratch", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done; exit 5")
	}()
	testkit.Eventually(t, 30*time.Second, func() error {
		if !strings.Contains(out.String(), "2\n") {
			return fmt.Errorf("it wrote %q", out)
		}
		return nil
	})
	real.end(syscall.SIGKILL)
	real.start()
	if r := <-ended; r.code != 5 || out.String() != "1\n2\n3\n4\n5\n6\n7\n8\n" {
		t.Errorf("%+v, it wrote %q", r, out)
	}
}
