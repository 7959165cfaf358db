package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
	"github.com/berthdev/berth/internal/testkit"
)

const patience = 60 * time.Second

func TestLocalPassesSuite(t *testing.T) {
	guesttest.Run(t, guesttest.Harness{New: func(t testing.TB) func(testing.TB) guest.Conn {
		h := guesttest.NewHelper(t)
		return func(t testing.TB) guest.Conn { return h.Connect(t) }
	}})
}

func sh(line string) guest.Cmd { return guest.Cmd{Argv: []string{"sh", "-c", line}} }

// everything asks for everything once.
func everything(ctx context.Context, c *guest.Local) map[string]error {
	p := c.Process("p")
	_, run := c.Run(ctx, sh("true"), guest.Stdio{})
	_, list := c.Processes(ctx)
	_, dial := c.Dial(ctx, 1)
	_, listen := c.Listen(ctx, 1)
	_, status := p.Status(ctx)
	_, write := p.Write(ctx, []byte("x"))
	_, pid := c.PeerPID(ctx)
	return map[string]error{
		"ping": c.Ping(ctx), "run": run, "start": c.Start(ctx, "q", sh("true")), "list": list, "kill all": c.KillAll(ctx),
		"dial": dial, "listen": listen, "status": status, "write": write, "close input": p.CloseInput(ctx),
		"resize": p.Resize(ctx, guest.Size{}), "signal": p.Signal(ctx, 1), "pid": pid,
	}
}

func TestAHelperThatIsGone(t *testing.T) {
	h := guesttest.NewHelper(t)
	c := h.Connect(t)
	h.Kill(t)
	for what, err := range everything(t.Context(), c) {
		if !errors.Is(err, guest.ErrGone) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Remove(filepath.Join(h.Dir, "sock")); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, guest.ErrGone) {
		t.Errorf("without a socket: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for what, err := range everything(t.Context(), c) {
		if err == nil || errors.Is(err, guest.ErrGone) {
			t.Errorf("%s on a closed connection: %v", what, err)
		}
	}
}

// A helper that dies takes its commands' exits with it. The spools of its processes can be ended then.
func TestAHelperDies(t *testing.T) {
	h := guesttest.NewHelper(t)
	c := h.Connect(t)
	if err := c.Start(t.Context(), "p", sh("echo before; exec sleep 5")); err != nil {
		t.Fatal(err)
	}
	for chunk, err := range c.Process("p").Output(t.Context(), 0) {
		if err != nil || string(chunk.Data) != "before\n" {
			t.Fatalf("%q, %v", chunk.Data, err)
		}
		break
	}
	var out watcher
	ran := make(chan error)
	go func() {
		_, err := c.Run(t.Context(), sh("echo running; exec sleep 5"), guest.Stdio{Stdout: &out})
		ran <- err
	}()
	out.wait(t, "running")
	h.Kill(t)
	if err := <-ran; !errors.Is(err, guest.ErrGone) {
		t.Errorf("the command: %v", err)
	}
	if err := guest.EndSpools(filepath.Join(h.Dir, "spool")); err != nil {
		t.Fatal(err)
	}
	var all string
	var exit *guest.Exit
	for chunk, err := range guest.Output(t.Context(), filepath.Join(h.Dir, "spool"), "p", 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all, exit = all+string(chunk.Data), chunk.Exit
	}
	if all != "before\n" || exit == nil || !exit.Lost {
		t.Errorf("the process: %q, exit %+v", all, exit)
	}
}

// watcher is a writer that can be waited for.
type watcher struct {
	mu   sync.Mutex
	text string
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text += string(p)
	return len(p), nil
}

func (w *watcher) wait(t *testing.T, text string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !strings.Contains(w.text, text) {
			return fmt.Errorf("%q", w.text)
		}
		return nil
	})
}

func TestPeerPID(t *testing.T) {
	h := guesttest.NewHelper(t)
	c := h.Connect(t)
	if err := c.Ping(t.Context()); err != nil { // it listens by then
		t.Fatal(err)
	}
	if pid, err := c.PeerPID(t.Context()); err != nil || pid != h.PID() {
		t.Errorf("%d, error %v, want %d", pid, err, h.PID())
	}
}

// An address has room for a hundred bytes or so; a data directory may be anywhere.
func TestLongPaths(t *testing.T) {
	t.Run(strings.Repeat("long", 40), func(t *testing.T) {
		if err := guesttest.Plain(t).Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What a command wrote itself is all there, however slowly it is taken and whoever else holds the pipe.
func TestSlowWritersGetAll(t *testing.T) {
	c := guesttest.Plain(t)
	release := make(chan struct{})
	var out slow
	out.release = release
	time.AfterFunc(2*time.Second, func() { close(release) })
	exit, err := c.Run(t.Context(), sh("head -c 60000 /dev/zero; sleep 86388 &"), guest.Stdio{Stdout: &out})
	if err != nil || exit.Code != 0 || out.Len() != 60000 {
		t.Errorf("%d bytes, exit %+v, error %v", out.Len(), exit, err)
	}
}

// slow takes its first bytes late.
type slow struct {
	bytes.Buffer
	release <-chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.release
	return s.Buffer.Write(p)
}

// Floods, from processes that live and from those that are gone, leave the helper small and answering.
func TestFloodsDoNotGrowTheHelper(t *testing.T) {
	h := guesttest.NewHelper(t)
	c := h.Connect(t)
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, line := range []string{
		"yes", "yes >&2", "while :; do printf x; done", "cat /dev/zero",
		"for i in 1 2 3 4 5 6 7 8; do yes & done; exit 0", "while :; do (exit 0) & wait; done",
	} {
		cmd := sh(line)
		cmd.Keep = 64 << 10
		if err := c.Start(t.Context(), "p"+strconv.Itoa(i), cmd); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 20 {
		if exit, err := c.Run(ctx, sh("sleep 0.05"), guest.Stdio{}); err != nil || exit.Code != 0 {
			t.Fatalf("exit %+v, error %v", exit, err)
		}
	}
	list, err := c.Processes(ctx)
	if err != nil || len(list) != 6 {
		t.Fatalf("%d processes, error %v", len(list), err)
	}
	for _, s := range list {
		if s.End-s.First > 512<<10 {
			t.Errorf("process %s has %d bytes in its spool", s.ID, s.End-s.First)
		}
	}
	if rss := residentAnonymous(t, h.PID()); rss > 8<<20 {
		t.Errorf("the helper has grown to %d KiB", rss>>10)
	}
}

// residentAnonymous is how much memory a process has that is no file's.
func residentAnonymous(t *testing.T, pid int) (size int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			_, err := fmt.Sscanf(rest, "%d kB", &size)
			if err != nil {
				t.Fatal(err)
			}
			return size << 10
		}
	}
	t.Fatalf("no RssAnon in %s", status)
	return 0
}
