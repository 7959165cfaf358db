package pid1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/spool"
	"github.com/berthdev/berth/internal/guest/wire"
	"github.com/berthdev/berth/internal/testkit"
)

// ask sends a message of any kind to the helper in a directory.
func ask(t *testing.T, dir string, body []byte, files ...int) (wire.Reply, error) {
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
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/sock", at.Fd())}); err != nil {
		t.Fatal(err)
	}
	c, err := wire.NewConn(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(append(wire.Packet(nil), body...), files...); err != nil {
		t.Fatal(err)
	}
	b, got, err := c.Recv(make([]byte, wire.RecvBuffer))
	wire.CloseAll(got)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.DecodeReply(b)
}

func TestForeignRequestsAreInvalid(t *testing.T) {
	_, dir := serve(t)
	before := files(t)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	run := wire.Request{Op: wire.OpRun, Cmd: wire.Cmd{Argv: []string{"true"}, Streams: wire.Stdout}}
	signal := wire.Request{Op: wire.OpSignal, ID: "p", Signal: 200}
	for name, r := range map[string]struct {
		body  []byte
		files []int
	}{
		"nonsense":            {[]byte("nonsense"), nil},
		"with a file":         {[]byte{0xff}, []int{null}},
		"too few descriptors": {run.Append(nil), nil},
		"too many":            {run.Append(nil), []int{null, null}},
		"no such signal":      {signal.Append(nil), nil},
	} {
		if reply, err := ask(t, dir, r.body, r.files...); err != nil || reply.Code != wire.Invalid {
			t.Errorf("%s: %+v, error %v", name, reply, err)
		}
	}
	testkit.Eventually(t, patience, func() error {
		if after := files(t); after > before+1 {
			return fmt.Errorf("%d descriptors are open, %d were", after, before)
		}
		return nil
	})
}

func files(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// However processes end, what the helper opened for them is closed.
func TestNothingIsLeftOpen(t *testing.T) {
	_, dir := serve(t)
	c := connect(t, dir)
	for range spoolReaders(t, c, "warm", guest.Cmd{Argv: []string{"true"}}) {
	}
	before := files(t)
	for i, cmd := range []guest.Cmd{
		{Argv: []string{"true"}}, {Argv: []string{"no-such"}}, {Argv: []string{"cat"}, Dir: "missing"},
		{Argv: []string{"true"}, Input: true}, {Argv: []string{"true"}, Terminal: &guest.Size{}},
		{Argv: []string{"/etc/passwd"}, Terminal: &guest.Size{}}, {Argv: []string{"sh", "-c", "sleep 0.01 & exit 1"}, Input: true},
		{Argv: []string{"sh", "-c", "exec >&- 2>&-"}}, {Argv: []string{"sh", "-c", "kill -9 $$"}},
	} {
		for range spoolReaders(t, c, "p"+strconv.Itoa(i), cmd) {
		}
	}
	testkit.Eventually(t, patience, func() error {
		if after := files(t); after > before {
			return fmt.Errorf("%d descriptors are open, %d were", after, before)
		}
		return nil
	})
}

// spoolReaders starts a process and reads to its end.
func spoolReaders(t *testing.T, c *guest.Local, id string, cmd guest.Cmd) func(func(guest.Chunk) bool) {
	t.Helper()
	if err := c.Start(t.Context(), id, cmd); err != nil {
		t.Fatal(err)
	}
	return func(yield func(guest.Chunk) bool) {
		for chunk, err := range c.Process(id).Output(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(chunk) {
				return
			}
		}
	}
}

func TestEndedProcessesAreForgottenInTime(t *testing.T) {
	_, dir := serve(t)
	c := connect(t, dir)
	const more = remembered + 10
	for i := range more {
		for range spoolReaders(t, c, fmt.Sprint("p", i), guest.Cmd{Argv: []string{"no-such"}}) {
		}
	}
	list, err := c.Processes(t.Context())
	if err != nil || len(list) != remembered {
		t.Errorf("%d processes are listed, error %v", len(list), err)
	}
	if err := c.Start(t.Context(), fmt.Sprint("p", more-1), guest.Cmd{Argv: []string{"true"}}); !errors.Is(err, guest.ErrExists) {
		t.Errorf("the id of one that is remembered: %v", err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if left, err := os.ReadDir(filepath.Join(dir, "spool")); err != nil || len(left) != remembered {
			return fmt.Errorf("%d spools are left, %v", len(left), err)
		}
		return nil
	})
}

// A spool is of the disk, not of the server's memory: an instance that is started again has them all.
func TestIdsOutliveTheHelper(t *testing.T) {
	s, dir := serve(t)
	w, err := spool.Create(s.Spools, "old", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := connect(t, dir).Start(t.Context(), "old", guest.Cmd{Argv: []string{"true"}}); !errors.Is(err, guest.ErrExists) {
		t.Errorf("started again: %v", err)
	}
}

// A helper that had no processor until the deadline still copies what the process has written.
func TestOutputAtTheDeadlineIsKept(t *testing.T) {
	testkit.Proves(t, "C4")
	s, dir := serve(t)
	w, err := spool.Create(s.Spools, "late", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close() // a descendant still has the pipe
	if _, err := to.WriteString("all that was said"); err != nil {
		t.Fatal(err)
	}
	p := &pump{server: s, file: from, stream: 1, spool: w, done: make(chan struct{})}
	past := time.Now().Add(-time.Second)
	p.until.Store(past.UnixNano())
	if err := from.SetReadDeadline(past); err != nil {
		t.Fatal(err)
	}
	p.run()
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	var held []byte
	files, _ := filepath.Glob(filepath.Join(dir, "spool", "late", "*"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, text...)
	}
	if !bytes.Contains(held, []byte("all that was said")) {
		t.Errorf("the spool holds %q", held)
	}
}

func TestDial6(t *testing.T) {
	_, dir := serve(t)
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := connect(t, dir).Dial(t.Context(), uint16(l.Addr().(*net.TCPAddr).Port))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestListenOnATakenPort(t *testing.T) {
	_, dir := serve(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := connect(t, dir).Listen(t.Context(), uint16(l.Addr().(*net.TCPAddr).Port)); err == nil || errors.Is(err, guest.ErrGone) {
		t.Errorf("error %v", err)
	}
}

// A spool directory that cannot be written says so; nothing runs then.
func TestStartWithoutADisk(t *testing.T) {
	_, dir := serve(t)
	if err := os.Remove(filepath.Join(dir, "spool")); err != nil {
		t.Fatal(err)
	}
	err := connect(t, dir).Start(t.Context(), "p", guest.Cmd{Argv: []string{"touch", "ran"}})
	if err == nil || errors.Is(err, guest.ErrGone) || errors.Is(err, guest.ErrExists) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "workspace", "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestLongCommandsAreShownShort(t *testing.T) {
	_, dir := serve(t)
	c := connect(t, dir)
	argv := []string{"sh", "-c", "exit 0", strings.Repeat("x", 100<<10), "more"}
	for range spoolReaders(t, c, "p", guest.Cmd{Argv: argv}) {
	}
	s, err := c.Process("p").Status(t.Context())
	if err != nil || len(s.Argv) != 4 || len(s.Argv[3]) > 2<<10 || !slices.Equal(s.Argv[:3], argv[:3]) {
		t.Errorf("shown as %d arguments, error %v", len(s.Argv), err)
	}
}

// A server that dies takes what it ran along, and nothing that it started.
func TestACommandEndsWithItsServer(t *testing.T) {
	s, dir := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = connect(t, dir).Run(ctx, guest.Cmd{Argv: []string{"sleep", "86389"}}, guest.Stdio{Stdout: &out})
	}()
	testkit.Eventually(t, patience, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.children) != 1 {
			return errors.New("it does not run yet")
		}
		return nil
	})
	cancel()
	<-done
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.children) != 0 {
		t.Error("it runs on")
	}
}
