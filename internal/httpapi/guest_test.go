package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// long is enough for anything on a busy machine.
const long = time.Minute

// workshop is a server whose sandboxes have a real helper inside, which isolates nothing. All of them
// share one.
type workshop struct {
	*site
	helper *guesttest.Helper
	box    string // the path of a sandbox
	id     string

	holds, held atomic.Int64 // now, and ever
	guests      atomic.Int64 // connections that were asked for
	frozen      atomic.Bool
	trouble     func(conn guest.Conn) guest.Conn
	down        error         // what reaching the inside fails with
	output      output        // in place of the handle's own
	patience    time.Duration // for readers that stand still
}

func newWorkshop(t *testing.T, change ...func(*Options)) *workshop {
	t.Helper()
	w := &workshop{helper: guesttest.NewHelper(t), trouble: func(c guest.Conn) guest.Conn { return c }}
	open := func(o *Options) {
		e := o.Engine.(*engine.Engine)
		o.Open = func(s sandbox.Sandbox, actor string) Handle { return &shopHandle{e.HandleOn(s, actor), w} }
	}
	w.site = newSite(t, append([]func(*Options){open}, change...)...)
	made := into[api.Sandbox](w.post(sandboxesPath, `{"name":"box","env":{"OWN":"of the sandbox"}}`).is(http.StatusCreated))
	w.box, w.id = sandboxesPath+"/box", made.ID
	return w
}

// shopHandle is the engine's handle but for what concerns the inside.
type shopHandle struct {
	*engine.Handle
	w *workshop
}

func (h *shopHandle) Guest(ctx context.Context) (guest.Conn, error) {
	h.w.guests.Add(1)
	if _, err := h.Sandbox(ctx); err != nil || h.w.down != nil {
		return nil, errors.Join(err, h.w.down)
	}
	dir, err := os.Open(h.w.helper.Dir)
	if err != nil {
		return nil, err
	}
	return h.w.trouble(guest.Open(dir, guest.Options{Spools: h.w.spools(), Owner: -1, Root: -1, Patience: h.w.patience})), nil
}

func (h *shopHandle) Peek(ctx context.Context) (guest.Conn, error) {
	if h.w.frozen.Load() {
		return nil, sandbox.Errorf("reach sandbox", api.CodeNotRunning, "sandbox %s does not run", h.w.id)
	}
	return h.Guest(ctx)
}

func (h *shopHandle) Frozen(context.Context) bool { return h.w.frozen.Load() }

func (h *shopHandle) Output(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error] {
	if h.w.output != nil {
		return h.w.output(ctx, process, after)
	}
	return guest.Output(ctx, h.w.spools(), process, after, h.w.patience)
}

func (h *shopHandle) Hold(ctx context.Context, kind string) func() {
	h.w.holds.Add(1)
	h.w.held.Add(1)
	return func() { h.w.holds.Add(-1) }
}

func (h *shopHandle) Freeze(ctx context.Context) (sandbox.Sandbox, error) { return h.Sandbox(ctx) }
func (h *shopHandle) Thaw(ctx context.Context) (sandbox.Sandbox, error)   { return h.Sandbox(ctx) }

func (w *workshop) spools() string { return filepath.Join(w.helper.Dir, "spool") }

// die ends the instance as a stop does: the helper is gone, and so is what it ran and left its number in
// a file named pid.
func (w *workshop) die() {
	w.t.Helper()
	w.post(w.box+"/stop", "").is(http.StatusOK)
	w.helper.Kill(w.t)
	text, err := os.ReadFile(filepath.Join(w.helper.Dir, "workspace", "pid"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(pid)
		if err != nil || n < 2 {
			w.t.Fatalf("no process %q", pid)
		}
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
	if err := guest.EndSpools(w.spools()); err != nil {
		w.t.Fatal(err)
	}
}

// reborn gives the sandbox another helper, which finds the spools of the one before.
func (w *workshop) reborn() {
	w.t.Helper()
	old := w.spools()
	w.helper = guesttest.NewHelper(w.t)
	spools, err := os.ReadDir(old)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, spool := range spools {
		if err := os.Rename(filepath.Join(old, spool.Name()), filepath.Join(w.spools(), spool.Name())); err != nil {
			w.t.Fatal(err)
		}
	}
}

// exec runs a command to its end.
func (w *workshop) exec(body string) api.ExecResult {
	w.t.Helper()
	return into[api.ExecResult](w.post(w.box+"/exec", body).is(http.StatusOK))
}

// over waits until a command has ended for the helper, too: its spool knows a moment earlier.
func (w *workshop) over(id string) (status api.ExecStatus) {
	w.t.Helper()
	testkit.Eventually(w.t, long, func() error {
		status = into[api.ExecStatus](w.get(w.box + "/exec/" + id).is(http.StatusOK))
		if status.Running || status.Exit == nil {
			return fmt.Errorf("it still runs: %+v", status)
		}
		return nil
	})
	return status
}

func shell(line string, more ...string) string {
	text, _ := json.Marshal(line)
	return fmt.Sprintf(`{"command":%s%s}`, text, strings.Join(append([]string{""}, more...), ","))
}

// watcher reads a stream of events.
type watcher struct {
	t     *testing.T
	res   *http.Response
	lines *bufio.Scanner
	close func()
}

// seen is one event as it came.
type seen struct {
	id string
	api.ExecEvent
}

// watch opens a stream; header are pairs.
func (w *site) watch(method, path, body string, header ...string) *watcher {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), long)
	r, err := http.NewRequestWithContext(ctx, method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.write)
	r.Header.Set("Accept", "text/event-stream")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	stop := func() { cancel(); res.Body.Close() }
	w.t.Cleanup(stop)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	return &watcher{w.t, res, lines, stop}
}

func (w *workshop) stream(body string, header ...string) *watcher {
	w.t.Helper()
	return w.watch(http.MethodPost, w.box+"/exec", body, header...).begun()
}

func (w *workshop) attach(id string, after int64, header ...string) *watcher {
	w.t.Helper()
	return w.watch(http.MethodGet, fmt.Sprintf("%s/exec/%s/stream?after=%d", w.box, id, after), "", header...).begun()
}

// answer is the whole answer of a stream that did not begin.
func (s *watcher) answer() answer {
	s.t.Helper()
	body, err := io.ReadAll(s.res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{s.t, s.res.StatusCode, s.res.Header, body}
}

// begun checks the first event, which every stream has.
func (s *watcher) begun() *watcher {
	s.t.Helper()
	if s.res.StatusCode != http.StatusOK || s.res.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("no stream: %d %s", s.res.StatusCode, s.answer().body)
	}
	first, ok := s.next()
	if !ok || first.Type != api.EventStarted || first.ExecID == "" || first.ExecID != s.id() || first.id != "" {
		s.t.Fatalf("a stream begins with %+v", first)
	}
	return s
}

func (s *watcher) id() string { return s.res.Header.Get(api.HeaderExecID) }

// next reads one event; ok is false at the stream's end.
func (s *watcher) next() (event seen, ok bool) {
	s.t.Helper()
	id, data, ok := s.frame()
	if !ok {
		return event, false
	}
	event.id = id
	if err := json.Unmarshal([]byte(data), &event.ExecEvent); err != nil {
		s.t.Fatalf("event %q: %v", data, err)
	}
	return event, true
}

// frame reads one event as it is on the wire: nothing but an id and one line of data.
func (s *watcher) frame() (id, data string, ok bool) {
	s.t.Helper()
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "data":
			data, ok = value, true
		case "":
			if ok {
				return id, data, true
			}
		default:
			s.t.Fatalf("a line %q in a stream of unnamed events", s.lines.Text())
		}
	}
	return id, data, false
}

// rest reads to the end, which is the command's.
func (s *watcher) rest() (stdout, stderr string, exit seen) {
	s.t.Helper()
	for {
		event, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream ended before the command, after %q and %q: %v", stdout, stderr, s.lines.Err())
		}
		switch event.Type {
		case api.EventStdout:
			stdout += string(event.Data())
		case api.EventStderr:
			stderr += string(event.Data())
		case api.EventExit:
			if _, more := s.next(); more {
				s.t.Fatal("something comes after the exit")
			}
			return stdout, stderr, event
		default:
			s.t.Fatalf("event %+v", event)
		}
	}
}
