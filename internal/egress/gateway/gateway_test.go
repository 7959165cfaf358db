package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/egress/gateway"
	"github.com/berthdev/berth/internal/testkit"
)

// dirEnv makes this binary a server that hands over the listener with descriptor 3 and then does nothing.
const dirEnv, programEnv, asEnv = "BERTH_GATEWAY_TEST_DIR", "BERTH_GATEWAY_TEST_PROGRAM", "BERTH_GATEWAY_TEST_SOCKET"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(dirEnv) != "":
		handOver()
	case os.Getenv(asEnv) != "":
		intrude(os.Getenv(asEnv))
	}
	os.Exit(m.Run())
}

// inherited is a box whose only listener is descriptor 3.
type inherited struct{}

func (inherited) Listen(context.Context, uint16) (net.Listener, error) {
	return net.FileListener(os.NewFile(3, "listener"))
}

func handOver() {
	c, err := gateway.New(gateway.Options{Dir: os.Getenv(dirEnv), Program: os.Getenv(programEnv)})
	if err == nil {
		_, err = c.Attach(context.Background(), "box-1-1", inherited{}, egress.Spec{Sandbox: "box-1", Rules: []string{"127.0.0.1:*"}, AllowPrivate: loopback})
	}
	fmt.Println("served", err)
	select {}
}

// server starts such a server.
func (w *world) server(b *box) *exec.Cmd {
	w.Helper()
	f, err := gateway.CopyOf(b.listener(egress.ProxyPort))
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirEnv+"="+w.dir, programEnv+"="+testkit.Binary(w))
	cmd.ExtraFiles = []*os.File{f}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "served <nil>\n" {
		w.Fatalf("%q, %v", line, err)
	}
	return cmd
}

// A tunnel through the proxy goes on when the server that opened the way is killed, and when the next one takes over.
func TestTunnelOutlivesTheServer(t *testing.T) {
	testkit.Proves(t, "X4")
	w, b, up := newWorld(t), newBox(t), upstream(t)
	first := w.server(b)
	c := open(t, b.proxy(), up)
	c.works(t)
	pid := w.pid()
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	c.works(t)
	open(t, b.proxy(), up).works(t)
	next := w.client()
	detach := w.attach(next, b, "127.0.0.1:*")
	c.works(t)
	open(t, b.proxy(), up).works(t)
	if now := w.pid(); now != pid {
		t.Errorf("process %d, not %d", now, pid)
	}
	if n := w.losses(); n != 0 {
		t.Errorf("%d losses are reported", n)
	}
	detach()
	c.ended(t)
}

// The next server's rules apply at once: to new connections, and to those that they do not allow any more.
func TestNextServersRulesApply(t *testing.T) {
	testkit.Proves(t, "E3")
	w, b, stays, goes := newWorldInside(t), newBox(t), upstream(t), upstream(t)
	first := w.client()
	w.attachSpec(first, b, egress.Spec{Rules: []string{stays, goes}, Services: map[string]string{"127.0.0.1:8788": "tcp://" + stays}})
	kept, ends, service := open(t, b.proxy(), stays), open(t, b.proxy(), goes), dial(t, b.at(8788))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []tunnel{kept, ends, service} {
		c.works(t)
	}
	second := w.client()
	w.attachSpec(second, b, egress.Spec{Rules: []string{stays}, Services: map[string]string{"127.0.0.1:8788": "tcp://" + stays}})
	ends.ended(t)
	kept.works(t)
	service.works(t)
	if _, status := connect(t, b.proxy(), goes); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
	w.attachSpec(second, b, egress.Spec{Rules: []string{stays}, Services: map[string]string{"127.0.0.1:8788": "tcp://" + goes}})
	service.ended(t)
	kept.works(t)
	dial(t, b.at(8788)).works(t)
	w.attachSpec(second, b, egress.Spec{})
	kept.ended(t)
}

// dial connects to a service.
func dial(t testing.TB, address string) tunnel {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return tunnel{c, bufio.NewReader(c)}
}

// A refusal while no server runs is in the log of the next one, once, and the bytes are in its metrics.
func TestNextServerLogsAndCountsWhatHappened(t *testing.T) {
	w, b, up := newWorldInside(t), newBox(t), upstream(t)
	first := w.client()
	w.attach(first, b, up)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, b.proxy(), up).works(t)
	if _, status := connect(t, b.proxy(), "127.0.0.1:1"); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
	second := w.client()
	var own egress.Traffic
	w.attachSpec(second, b, egress.Spec{Rules: []string{up}, Meter: &own})
	w.log.shows(t, `msg="egress refused" reason="no egress rule of the template allows it" sandbox_id=box-1 status=403 target=127.0.0.1:1`)
	counted := func(want int64) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			for _, traffic := range []*egress.Traffic{w.got, &own} {
				if in, out := traffic.In.Load(), traffic.Out.Load(); in != want || out != want {
					return fmt.Errorf("%d bytes in, %d out", in, out)
				}
			}
			return nil
		})
	}
	counted(3)
	open(t, b.proxy(), up).works(t)
	counted(6)
	if n := strings.Count(w.log.String(), "egress refused"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, w.log)
	}
}

// A server of another protocol does not use the process: new connections go to another one, those of before end in
// theirs.
func TestProcessOfAnotherVersionFinishes(t *testing.T) {
	testkit.Proves(t, "X4")
	w, b, up := newWorld(t), newBox(t), upstream(t)
	first := w.client()
	w.attach(first, b, up)
	old := open(t, b.proxy(), up)
	pid := w.pid()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := gateway.NewWith(w.options(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Close() })
	w.attach(second, b, up)
	if err := second.DrainOthers(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 20 { // the listener is the other's alone
		open(t, b.proxy(), up).works(t)
	}
	old.works(t)
	testkit.Eventually(t, patience, func() error {
		if in := w.got.In.Load(); in != 21*3 {
			return fmt.Errorf("%d bytes are counted", in)
		}
		return nil
	})
	_ = old.Close()
	testkit.Eventually(t, patience, func() error {
		sockets, _ := filepath.Glob(filepath.Join(w.dir, "*.sock"))
		if pids := w.pids(); len(pids) != 1 || pids[0] == pid || len(sockets) != 1 {
			return fmt.Errorf("processes %v, sockets %v", pids, sockets)
		}
		return nil
	})
}

// A process that was killed is replaced, for every sandbox.
func TestKilledProcessIsReplaced(t *testing.T) {
	testkit.Proves(t, "X4")
	w, b, other, up := newWorld(t), newBox(t), newBox(t), upstream(t)
	c := w.client()
	w.attach(c, b, up)
	w.attachAs("box-2", c, other, egress.Spec{Rules: []string{up}})
	for range 2 {
		lost, before := open(t, b.proxy(), up), w.losses()
		if err := syscall.Kill(w.pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		lost.ended(t)
		for _, b := range []*box{b, other} {
			open(t, b.proxy(), up).works(t)
		}
		if n := w.losses(); n != before+1 {
			t.Errorf("%d losses are reported, before %d", n, before)
		}
	}
	w.log.shows(t, "the egress process has ended; starting another")
}

// An instance that starts right after the death of the process gets the new one, and so do the others.
func TestAttachReplacesAKilledProcess(t *testing.T) {
	w, b, other, up := newWorld(t), newBox(t), newBox(t), upstream(t)
	c := w.client()
	w.attach(c, b, up)
	if err := syscall.Kill(w.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.attachAs("box-2", c, other, egress.Spec{Rules: []string{up}})
	open(t, other.proxy(), up).works(t)
	open(t, b.proxy(), up).works(t)
	w.pid()
}

// The end of an instance ends its ways out, and with the last one the process, although no server is there.
func TestEndOfAnInstanceEndsItsWaysOut(t *testing.T) {
	w, b, up := newWorld(t), newMortal(t), upstream(t)
	c := w.client()
	w.attach(c, b, up)
	conn := open(t, b.proxy(), up)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	conn.works(t)
	b.end()
	conn.ended(t)
	testkit.Eventually(t, patience, func() error {
		if pids := w.pids(); len(pids) > 0 {
			return fmt.Errorf("left: %v", pids)
		}
		return nil
	})
}

// Another run of an instance has other listeners. The end of the earlier one does not touch them.
func TestNextRunOfAnInstance(t *testing.T) {
	w, up := newWorldInside(t), upstream(t)
	first, second := newMortal(t), newMortal(t)
	c := w.client()
	detach := w.attach(c, first, up)
	conn := open(t, first.proxy(), up)
	w.attach(c, second, up)
	conn.ended(t)
	detach()
	first.end()
	open(t, second.proxy(), up).works(t)
}

// A server that serves the ways out by itself lets the process finish; 'berth down' ends it.
func TestDrainAndEnd(t *testing.T) {
	w, b, up := newWorldInside(t), newBox(t), upstream(t)
	c := w.client()
	w.attach(c, b, up)
	conn := open(t, b.proxy(), up)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gateway.Drain(t.Context(), w.dir); err != nil {
		t.Fatal(err)
	}
	conn.works(t)
	waiting := dial(t, b.proxy()) // nothing accepts it
	detach, err := egress.Attach(t.Context(), b, egress.Spec{Rules: []string{up}, AllowPrivate: loopback})
	if err != nil {
		t.Fatal(err)
	}
	open(t, b.proxy(), up).works(t)
	detach()
	_ = waiting.Close()
	_ = conn.Close()
	if err := gateway.End(t.Context(), w.dir); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, "*.sock")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := errors.Join(gateway.Drain(t.Context(), w.dir), gateway.End(t.Context(), w.dir), gateway.End(t.Context(), w.dir+"/none")); err != nil {
		t.Error(err)
	}
}

// A sandbox that opens connections without end keeps no other from connecting.
func TestFloodOfOneSandboxLeavesTheOthers(t *testing.T) {
	testkit.Proves(t, "E6")
	w, b, other, up := newWorldInside(t), newBox(t), newBox(t), upstream(t)
	c := w.client()
	w.attachSpec(c, b, egress.Spec{Rules: []string{up}, Limits: egress.Limits{Conns: 20}})
	w.attachAs("box-2", c, other, egress.Spec{Rules: []string{up}})
	refused := 0
	for range 30 {
		if _, status := connect(t, b.proxy(), up); status == http.StatusServiceUnavailable {
			refused++
		}
	}
	if refused != 10 {
		t.Errorf("%d of 30 are refused", refused)
	}
	open(t, other.proxy(), up).works(t)
	for files, want := range map[uint64]int{64: 8, 1024: 64, 8192: 512, 1 << 20: 512} {
		if got := gateway.ShareOf(files); got != want {
			t.Errorf("of %d descriptors a listener may use %d connections, not %d", files, got, want)
		}
	}
}

func TestBadSpecsAndRequestsAreRefused(t *testing.T) {
	w, b, up := newWorldInside(t), newBox(t), upstream(t)
	c := w.client()
	w.attach(c, b, up)
	for name, spec := range map[string]egress.Spec{
		"rule": {Rules: []string{"*"}}, "service": {Services: map[string]string{"x": "y"}},
	} {
		if _, err := c.Attach(t.Context(), "box-2-1", b, spec); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Attach(t.Context(), "box-2-1", plain{b}, egress.Spec{Rules: []string{"all"}}); err == nil || !strings.Contains(err.Error(), "plain") {
		t.Errorf("a listener without a descriptor: %v", err)
	}
	for text, want := range map[string]string{
		`{"op":"attach"}`: "incomplete", `{"op":"attach","instance":"x","spec":{},"ports":[1]}`: "incomplete",
		`{"op":"dance"}`: "unknown operation", `{`: "", ``: "", strings.Repeat(" ", 9<<20): "",
	} {
		if got := gateway.Raw(t, w.dir, text); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%.60q is answered %q", text, got)
		}
	}
	open(t, b.proxy(), up).works(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Attach(t.Context(), "box-3-1", b, egress.Spec{Rules: []string{"all"}}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	next := w.client()
	w.attach(next, b, up)()
}

// plain hands out listeners that are no sockets.
type plain struct{ *box }

type plainListener struct{ net.Listener }

func (p plain) Listen(ctx context.Context, port uint16) (net.Listener, error) {
	ln, err := p.box.Listen(ctx, port)
	return plainListener{ln}, err
}

// A listener that is handed over keeps its mode, which all its copies share: the process accepts on one of them.
func TestCopiesOfListenersStayNonblocking(t *testing.T) {
	b := newBox(t)
	f, err := gateway.CopyOf(b.listener(1))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("flags %x, %v", flags, err)
	}
}

// A program that cannot be started is an error, and nothing is left of it.
func TestProgramThatCannotBeStarted(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	for _, program := range []string{filepath.Join(w.dir, "none"), "/bin/false"} {
		o.Program = program
		c, err := gateway.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Attach(t.Context(), "box-1-1", newBox(t), egress.Spec{Rules: []string{"all"}}); err == nil {
			t.Errorf("%s serves", program)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	o.Dir = "/proc/none"
	if _, err := gateway.New(o); err == nil {
		t.Error("a directory that cannot be made")
	}
}

// Another user of the machine who gets at the socket all the same gets no answer.
func TestOtherUsersGetNoAnswer(t *testing.T) {
	testkit.Proves(t, "E3")
	w, b, up := newWorld(t), newBox(t), upstream(t)
	c := w.client()
	w.attach(c, b, up)
	// The socket, as if its modes did not protect it.
	public, err := os.MkdirTemp("", "berth-gateway-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(public) })
	socket := filepath.Join(public, "sock")
	for _, err := range []error{os.Chmod(public, 0o755), os.Link(filepath.Join(w.dir, "v1.sock"), socket), os.Chmod(socket, 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ask := func(as *syscall.Credential) string {
		t.Helper()
		cmd := exec.Command("/proc/self/exe")
		cmd.Env, cmd.Dir = append(os.Environ(), asEnv+"="+socket), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if got := ask(nil); !strings.Contains(got, "process") {
		t.Fatalf("the server's user gets %q: the test proves nothing", got)
	}
	if got := ask(&syscall.Credential{Uid: 65533, Gid: 65533}); got != "" {
		t.Errorf("another user gets %q", got)
	}
}

// intrude asks a socket for a report and prints the answer.
func intrude(socket string) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, _ = io.WriteString(c, `{"op":"poll"}`)
	_ = c.(*net.UnixConn).CloseWrite()
	_, _ = io.Copy(os.Stdout, c)
	os.Exit(0)
}

// Serve needs a socket of the file system, and a listener that is none is refused without harm.
func TestWrongDescriptors(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := gateway.Serve(null, 0); err == nil {
		t.Error("a file is served")
	}
	socket, err := gateway.CopyOf(newBox(t).listener(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := gateway.Serve(socket, 0); err == nil || !strings.Contains(err.Error(), "file system") {
		t.Errorf("a network socket: %v", err)
	}
	w, b, up := newWorldInside(t), newBox(t), upstream(t)
	c := w.client()
	w.attach(c, b, up)
	if _, err := c.Attach(t.Context(), "box-2-1", pipes{b}, egress.Spec{Rules: []string{"all"}}); err == nil || !strings.Contains(err.Error(), "port 3128") {
		t.Errorf("a pipe: %v", err)
	}
	open(t, b.proxy(), up).works(t)
}

// pipes hands out pipes as listeners.
type pipes struct{ *box }

type pipeListener struct {
	net.Listener
	*os.File
}

func (l pipeListener) Close() error { return l.File.Close() }

func (p pipes) Listen(ctx context.Context, port uint16) (net.Listener, error) {
	ln, err := p.box.Listen(ctx, port)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	r, w, err := os.Pipe()
	if err == nil {
		_ = w.Close()
	}
	return pipeListener{nil, r}, err
}

// The process waits for the next server as long as a sandbox uses it.
func TestProcessStaysWithoutAServer(t *testing.T) {
	testkit.Proves(t, "X4")
	w, b, up := newWorld(t), newMortal(t), upstream(t)
	c := w.client()
	w.attach(c, b, up)
	conn := open(t, b.proxy(), up)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-gateway.ServeForTest(t, filepath.Join(t.TempDir(), "egress")) // no sandbox uses this one, so it ends by itself
	_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection has ended: %v", err)
	}
	open(t, b.proxy(), up).works(t)
	b.end()
}
