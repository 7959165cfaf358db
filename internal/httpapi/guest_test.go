package httpapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
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
	trouble     func(conn guest.Conn) guest.Conn
	down        error                                                                                // what reaching the inside fails with
	output      func(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error] // in place of the handle's own
	patience    time.Duration                                                                        // for readers that stand still
}

func newWorkshop(t *testing.T, change ...func(*Options)) *workshop {
	t.Helper()
	w := &workshop{helper: guesttest.NewHelper(t), trouble: func(c guest.Conn) guest.Conn { return c }}
	staff := func(o *Options) {
		o.inFake(func(f *fake.Driver) driver.Driver { return &shopDriver{f, w} })
		o.changeEngine(func(e *engine.Options) { e.Store = holdCounter{e.Store, w} })
	}
	w.site = newSite(t, append([]func(*Options){staff}, change...)...)
	made := into[api.Sandbox](w.post(sandboxesPath, `{"name":"box","env":{"OWN":"of the sandbox"}}`).is(http.StatusCreated))
	w.box, w.id = sandboxesPath+"/box", made.ID
	return w
}

// shopDriver is the fake driver with a helper in its running instances.
type shopDriver struct {
	*fake.Driver
	w *workshop
}

func (d *shopDriver) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	d.w.guests.Add(1)
	if st, err := d.Inspect(ctx, id); err != nil || st.Phase != driver.PhaseRunning {
		return nil, cmp.Or(err, driver.ErrNotRunning)
	}
	if d.w.down != nil {
		return nil, d.w.down
	}
	dir, err := os.Open(d.w.helper.Dir)
	if err != nil {
		return nil, err
	}
	return d.w.trouble(guest.Open(dir, guest.Options{Spools: d.w.spools(), Owner: -1, Root: -1, Patience: d.w.patience})), nil
}

func (d *shopDriver) Output(ctx context.Context, _ driver.ID, process string, after int64) iter.Seq2[guest.Chunk, error] {
	if d.w.output != nil {
		return d.w.output(ctx, process, after)
	}
	return guest.Output(ctx, d.w.spools(), process, after, d.w.patience)
}

// holdCounter counts holds.
type holdCounter struct {
	engine.Store
	w *workshop
}

func (c holdCounter) Hold(ctx context.Context, id, kind, ref string, until time.Time) error {
	c.w.holds.Add(1)
	c.w.held.Add(1)
	return c.Store.Hold(ctx, id, kind, ref, until)
}

func (c holdCounter) DropHold(ctx context.Context, id, kind, ref string) error {
	c.w.holds.Add(-1)
	return c.Store.DropHold(ctx, id, kind, ref)
}

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
	checkEvent(s.t, api.ExecEvents, data)
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
