package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// window is a moment at which the server is killed: at a named point of its work, or, without one, by
// the test while commands run.
type window struct{ name, point string }

var windows = []window{
	{"after clone", "after-clone"},
	{"after cgroup", "after-cgroup"},
	{"mid-mount", "mid-mount"},
	{"before commit", "after-create"},
	{"mid-exec", ""},
	{"mid-delete", "mid-destroy"},
}

// killEnv tells a server process where to kill itself: "point n", at the n-th time it gets there; "point n FILE" is for
// several servers, of which the first one dies: it makes the file.
const killEnv = "BERTH_APP_KILL"

// killAt is the server's side of it.
func killAt(spec string) func(point, id string) {
	spec, claim, _ := strings.Cut(spec, " /")
	point, count, ok := strings.Cut(spec, " ")
	if !ok {
		return nil
	}
	n, _ := strconv.ParseInt(count, 10, 64)
	var hits atomic.Int64
	return func(at, _ string) {
		if at != point || hits.Add(1) != n {
			return
		}
		if claim != "" {
			f, err := os.OpenFile("/"+claim, os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return
			}
			_ = f.Close()
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// The server is killed again and again under load, in each of the windows. What ran goes on and none of
// its output is lost; every sandbox is there, whole, or gone, and nothing is left of those that are gone.
func TestKilledServerLosesNoSandbox(t *testing.T) {
	testkit.Proves(t, "X4", "E3")
	t.Parallel()
	w := &killWorld{T: t, env: local(t), hits: map[string]int{}, ids: map[string]bool{}}
	w.keep(3)
	kills := testkit.Size(t, "kill.servers")
	for i := range kills {
		w.round(windows[i%len(windows)], i)
		if i%10 == 9 || i == kills-1 {
			w.settle()
		}
	}
	for _, win := range windows {
		t.Logf("%-14s %d", win.name, w.hits[win.name])
		if w.hits[win.name] == 0 {
			t.Errorf("the window %q was never hit", win.name)
		}
	}
	w.finish()
}

// killWorld is what outlives the servers.
type killWorld struct {
	*testing.T
	env     []string
	keepers []string // sandboxes in which a process counts, from the beginning to the end
	hits    map[string]int
	ids     map[string]bool // of all sandboxes there ever were

	mu    sync.Mutex
	names map[string]bool // made since the last settling; true: asked to go
}

// keep makes sandboxes in each of which a process counts until it is told to end.
func (w *killWorld) keep(n int) {
	p := start(w.T, w.env)
	c := p.client(w.T)
	for i := range n {
		name := fmt.Sprintf("syncer-%d", i)
		w.create(c, name)
		stream, err := c.Sandboxes.ExecStream(w.Context(), name, api.Exec{ExecID: "counter", Command: api.Shell(
			`i=0; while [ ! -e /workspace/stop ]; do echo $i; echo err $i >&2; i=$((i+1)); sleep 0.05; done; echo end`)})
		if err != nil {
			w.Fatal(err)
		}
		_ = stream.Close()
		w.keepers = append(w.keepers, name)
	}
	w.kill(p)
}

func (w *killWorld) create(c *client.Client, name string) {
	w.Helper()
	if _, _, err := c.Sandboxes.Create(w.Context(), api.CreateSandbox{Name: name}); err != nil {
		w.Fatal(err)
	}
}

func (w *killWorld) kill(p *process) {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	w.learn(p)
}

// round runs a server under load until it is killed in the window.
func (w *killWorld) round(win window, i int) {
	env := w.env
	if win.point != "" {
		env = append(append([]string{}, env...), fmt.Sprintf("%s=%s %d", killEnv, win.point, 1+rand.IntN(3)))
	}
	p, up := tryStart(w.T, env)
	if !up {
		// What the last one left unfinished brought this one to the window at once.
		w.hit(win, p.cmd.Wait())
		return
	}
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	var load sync.WaitGroup
	ran := make(chan struct{}, 1)
	for j := range 3 {
		load.Go(func() { w.load(ctx, p, fmt.Sprintf("box-%d-%d", i, j), ran) })
	}
	died := make(chan error, 1)
	go func() { died <- p.cmd.Wait() }()
	if win.point == "" {
		select {
		case <-ran:
		case <-ctx.Done():
		}
		_ = p.cmd.Process.Kill()
	}
	select {
	case err := <-died:
		w.hit(win, err)
	case <-ctx.Done():
		w.Logf("round %d did not come to %s", i, win.name)
		_ = p.cmd.Process.Kill()
		<-died
	}
	cancel()
	load.Wait()
	w.learn(p)
}

// hit counts a server that was killed in a window; one that ended otherwise is a failure.
func (w *killWorld) hit(win window, ended error) {
	var exit *exec.ExitError
	if !errors.As(ended, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		w.Errorf("the server was not killed in %s: %v", win.name, ended)
		return
	}
	w.hits[win.name]++
}

// load makes sandboxes, uses them and deletes them, until the server is gone. It says so when a command
// is about to be cut off.
func (w *killWorld) load(ctx context.Context, p *process, prefix string, ran chan<- struct{}) {
	c := p.client(w.T, client.WithAttempts(1))
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%s-%d", prefix, n)
		w.note(name, false)
		if _, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: name}); err != nil {
			return
		}
		stream, err := c.Sandboxes.ExecStream(ctx, name, api.Exec{Command: api.Shell("echo ran; sleep 0.2; echo ran on")})
		if err != nil {
			return
		}
		if _, err := stream.Next(); err == nil {
			select {
			case ran <- struct{}{}:
			default:
			}
		}
		_ = stream.Close()
		if n%2 == 0 {
			w.note(name, true)
			if err := c.Sandboxes.Delete(ctx, name); err != nil {
				return
			}
		}
	}
}

func (w *killWorld) note(name string, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names = map[string]bool{}
	}
	w.names[name] = gone
}

// settle checks, with a server that nobody kills, what became of everything, and ends it.
func (w *killWorld) settle() {
	w.Helper()
	p := start(w.T, w.env)
	c := p.client(w.T)
	for name, gone := range w.names {
		w.usable(c, name, gone)
	}
	w.learn(p)
	w.names = nil
	for _, name := range w.keepers {
		if got, err := c.Sandboxes.Get(w.Context(), name); err != nil || got.Incarnation != 1 || got.State != "running" {
			w.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	testkit.Eventually(w.T, time.Minute, func() error { return w.left(len(w.keepers)) })
	if err := p.end(w.T); err != nil {
		w.Errorf("drain: %v", err)
	}
}

// usable uses a sandbox that is there and deletes it. One that was asked to go may be gone, and so may
// one whose making was never answered.
func (w *killWorld) usable(c *client.Client, name string, gone bool) {
	w.Helper()
	res, err := c.Sandboxes.Exec(w.Context(), name, api.Exec{Command: api.Shell("echo ok")})
	switch {
	case problem(err).Code == api.CodeNotFound || gone && problem(err).Code == api.CodeDeleted:
		return
	case err != nil || res.Stdout != "ok\n":
		w.Errorf("%s (asked to go: %v): %+v, %v", name, gone, res, err)
	}
	if err := c.Sandboxes.Delete(w.Context(), name); err != nil {
		w.Errorf("delete %s: %v", name, err)
	}
}

// finish ends the counters and reads all that they ever wrote.
func (w *killWorld) finish() {
	w.Helper()
	p := start(w.T, w.env)
	c := p.client(w.T)
	for _, name := range w.keepers {
		if res, err := c.Sandboxes.Exec(w.Context(), name, api.Exec{Command: api.Shell("touch /workspace/stop")}); err != nil || res.ExitCode != 0 {
			w.Errorf("%+v, %v", res, err)
		}
		w.counted(c, name)
		if err := c.Sandboxes.Delete(w.Context(), name); err != nil {
			w.Error(err)
		}
	}
	testkit.Eventually(w.T, time.Minute, func() error { return w.left(0) })
	if err := p.end(w.T); err != nil {
		w.Errorf("drain: %v", err)
	}
}

// counted checks that a counter's output has every number once, in order, on both streams.
func (w *killWorld) counted(c *client.Client, name string) {
	w.Helper()
	stream, err := c.Sandboxes.Attach(w.Context(), name, "counter", 0)
	if err != nil {
		w.Error(err)
		return
	}
	defer func() { _ = stream.Close() }()
	var out, errs strings.Builder
	for {
		ev, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.Errorf("%s: %v", name, err)
			return
		}
		switch ev.Type {
		case api.EventStdout:
			out.Write(ev.Data())
		case api.EventStderr:
			errs.Write(ev.Data())
		case api.EventExit:
			if ev.ExitCode != 0 || ev.Lost {
				w.Errorf("%s ended with %+v", name, ev.ExecExit)
			}
		}
	}
	lines := strings.Split(out.String(), "\n")
	errLines := strings.Split(errs.String(), "\n")
	n := len(lines) - 2 // "end" and what follows the last newline
	if n < 1 || lines[n] != "end" || len(errLines) != n+1 {
		w.Errorf("%s wrote %d lines and %d to stderr, ending in %q", name, len(lines), len(errLines), lines[max(0, n)])
		return
	}
	for i := range n {
		if lines[i] != strconv.Itoa(i) || errLines[i] != "err "+strconv.Itoa(i) {
			w.Errorf("%s: line %d is %q, and %q on stderr", name, i, lines[i], errLines[i])
			return
		}
	}
	w.Logf("%s counted to %d", name, n)
}

// left is nil when exactly so many instances have anything on this machine: a directory, a cgroup, a
// process.
func (w *killWorld) left(want int) error {
	dir := filepath.Join(value(w.env, "BERTH_DATA_DIR"), "local")
	for _, sub := range []string{".new", ".trash"} {
		if rest, err := os.ReadDir(filepath.Join(dir, sub)); err != nil || len(rest) > 0 {
			return fmt.Errorf("%d entries in %s, %v", len(rest), sub, err)
		}
	}
	entries, err := filepath.Glob(filepath.Join(dir, "*-*-*-*-*-*"))
	if err != nil || len(entries) != want {
		return fmt.Errorf("%d instances have a directory, not %d: %v, %v", len(entries), want, entries, err)
	}
	live := map[string]bool{}
	for _, e := range entries {
		live[filepath.Base(e)[:36]] = true
	}
	return errors.Join(w.leftIn("/sys/fs/cgroup", live), w.leftRunning(live))
}

// leftIn looks for cgroups of sandboxes that were ours and are gone.
func (w *killWorld) leftIn(root string, live map[string]bool) error {
	return filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // other tests' cgroups come and go
		}
		if id := w.ours(filepath.Base(path), live); id != "" {
			return fmt.Errorf("the cgroup %s is left", path)
		}
		return nil
	})
}

// leftRunning looks for processes in cgroups of sandboxes that were ours and are gone.
func (w *killWorld) leftRunning(live map[string]bool) error {
	procs, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return err
	}
	for _, path := range procs {
		groups, _ := os.ReadFile(path)
		if id := w.ours(string(groups), live); id != "" {
			return fmt.Errorf("%s of sandbox %s is left", filepath.Dir(path), id)
		}
	}
	return nil
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// ours finds the id of a sandbox of this test that is not live any more.
func (w *killWorld) ours(text string, live map[string]bool) string {
	for _, id := range anyID.FindAllString(text, -1) {
		if w.ids[id] && !live[id] {
			return id
		}
	}
	return ""
}

// learn takes the ids of sandboxes from a server's log.
func (w *killWorld) learn(p *process) {
	for _, id := range anyID.FindAllString(p.logs.String(), -1) {
		w.ids[id] = true
	}
}
