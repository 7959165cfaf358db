package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

// A command that ran in an earlier life of the instance is not run again under its id, and what it left is
// its answer.
func TestExecOfAnEarlierLifeIsAnsweredFromItsSpool(t *testing.T) {
	w := newWorkshop(t)
	ask := func(body, key string) answer {
		header := map[string]string{}
		if key != "" {
			header[idempotencyHeader] = key
		}
		return w.do(call{method: http.MethodPost, path: w.box + "/exec", key: w.write, body: body, header: header})
	}
	body := shell("echo x >> pid; echo out; echo err >&2; exit 3", `"exec_id":"job"`)
	ask(body, "first").is(http.StatusOK)
	if err := os.WriteFile(filepath.Join(w.helper.Dir, "workspace", "pid"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.die()
	w.reborn()
	got := into[api.ExecResult](ask(body, "second").is(http.StatusOK))
	if got.ExitCode != 3 || got.Stdout != "out\n" || got.Stderr != "err\n" || got.ExecID != "job" {
		t.Errorf("%+v", got)
	}
	if stdout, stderr, exit := w.stream(body, idempotencyHeader, "third").rest(); stdout != "out\n" || stderr != "err\n" || exit.ExitCode != 3 {
		t.Errorf("%q, %q, %+v", stdout, stderr, exit.ExecExit)
	}
	if p := ask(body, "").fails(api.CodeExecExists); !strings.Contains(p.Detail, "job") {
		t.Errorf("%q does not name the id", p.Detail)
	}
	if _, err := os.Stat(filepath.Join(w.helper.Dir, "workspace", "pid")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it ran again: %v", err)
	}
}

// Every spelling of attaching leads to the same events.
func TestWaysToAttach(t *testing.T) {
	w := newWorkshop(t)
	w.stream(shell("printf abcdef; exit 4", `"exec_id":"run"`)).rest()
	post := func(body string, header ...string) *watcher {
		return w.watch(http.MethodPost, w.box+"/exec", body, header...)
	}
	get := func(query string, header ...string) *watcher {
		return w.watch(http.MethodGet, w.box+"/exec/run"+query, "", header...)
	}
	for _, stopped := range []bool{false, true} {
		if stopped {
			if err := os.WriteFile(filepath.Join(w.helper.Dir, "workspace", "pid"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			w.die()
		}
		for want, ways := range map[string][]*watcher{
			"abcdef": {post(`{"exec_id":"run"}`), post(`{"exec_id":"run","after":0}`, idempotencyHeader, "k"), get(""), get("?after=0"), get("/stream")},
			"ef":     {post(`{"exec_id":"run","after":4}`), get("?after=4"), get("/stream?after=4"), post(`{"exec_id":"run","after":1}`, "Last-Event-ID", "4")},
			"":       {post(`{"exec_id":"run","after":6}`), get("?after=6")},
		} {
			for i, s := range ways {
				if stdout, _, exit := s.begun().rest(); stdout != want || exit.ExitCode != 4 || exit.Next != 6 {
					t.Errorf("stopped %v, way %d to %q: %q, %+v", stopped, i, want, stdout, exit.ExecExit)
				}
			}
		}
		post(`{"exec_id":"run","after":7}`).answer().fails(api.CodeInvalidRequest)
		get("?after=7").answer().fails(api.CodeInvalidRequest)
		post(`{"exec_id":"none"}`).answer().fails(api.CodeNoSuchExec)
		post(`{"exec_id":"run"}`, "Last-Event-ID", "6.end").answer().is(http.StatusNoContent)
	}
	post(`{"exec_id":"run"}`, "Last-Event-ID", "?").answer().fails(api.CodeInvalidRequest)
	for body, field := range map[string]string{
		`{"after":1}`:                                   "command",
		`{"exec_id":"run","after":-1}`:                  "after",
		`{"exec_id":"run","stdin":"x"}`:                 "command",
		shell("true", `"after":1`):                      "after",
		shell("true", `"exec_id":"other"`, `"after":0`): "after",
	} {
		if p := post(body).answer().fails(api.CodeInvalidRequest); !strings.Contains(p.Detail, field) {
			t.Errorf("%s: %q does not name %s", body, p.Detail, field)
		}
	}
	if p := w.post(w.box+"/exec", `{"exec_id":"run","after":0}`).fails(api.CodeInvalidRequest); !strings.Contains(p.Detail, "text/event-stream") {
		t.Errorf("%q does not say how to attach", p.Detail)
	}
	w.get(w.box + "/exec/run?after=1").fails(api.CodeInvalidRequest)
	w.get(w.box + "/exec/run?afer=1").fails(api.CodeInvalidRequest)
}

// Reading does not wake a frozen sandbox: it shows the stored output, or how to thaw it.
func TestFrozenSandboxIsReadFromItsSpools(t *testing.T) {
	w := newWorkshop(t)
	w.stream(shell("printf abc; exit 3", `"exec_id":"over"`)).rest()
	s := w.stream(shell("echo begun; exec sleep 600", `"exec_id":"held"`))
	s.next()
	w.post(w.box+"/freeze", "").is(http.StatusOK)
	status := into[api.ExecStatus](w.get(w.box + "/exec/over").is(http.StatusOK))
	if status.Running || status.Exit == nil || status.Exit.ExitCode != 3 || status.First != 0 || status.End != 3 {
		t.Errorf("%+v", status)
	}
	w.get(w.box + "/exec/none").fails(api.CodeNoSuchExec)
	for _, path := range []string{"/exec", "/exec/held"} {
		if p := w.get(w.box + path).fails(api.CodeNotRunning); !strings.Contains(p.Detail, "frozen") || !strings.Contains(p.Hint, "thaw") {
			t.Errorf("%s: %q, hint %q", path, p.Detail, p.Hint)
		}
	}
	if event, _ := w.attach("held", 0).next(); event.Text != "begun\n" {
		t.Errorf("%+v", event)
	}
	w.attach("held", 6).close() // there is nothing to come, and it begins all the same
	w.post(w.box+"/exec/held/signal", `{"signal":"KILL"}`).is(http.StatusNoContent)
}

// Who may only read does not keep a sandbox from its timers.
func TestReadingHoldsNothing(t *testing.T) {
	w := newWorkshop(t)
	s := w.stream(shell("echo begun; exec sleep 600", `"exec_id":"long"`))
	s.next()
	s.close()
	testkit.Eventually(t, long, func() error {
		if n := w.holds.Load(); n != 0 {
			return fmt.Errorf("%d holds", n)
		}
		return nil
	})
	before := w.held.Load()
	reader := w.attach("long", 0, "Authorization", "Bearer "+w.read)
	if event, _ := reader.next(); event.Text != "begun\n" || w.held.Load() != before {
		t.Errorf("%+v, with %d holds", event, w.held.Load()-before)
	}
	if event, _ := w.attach("long", 0).next(); event.Text != "begun\n" || w.held.Load() == before {
		t.Error("who may use the sandbox does not hold it while watching")
	}
}

// The helper ends a command at its limit. Nothing here waits for that.
func TestAbandonedCommandsCostNoConnection(t *testing.T) {
	w := newWorkshop(t)
	var open counter
	w.trouble = func(c guest.Conn) guest.Conn { open.Add(1); return &counted{Conn: c, open: &open} }
	for i := range 5 {
		s := w.stream(shell("echo begun; exec sleep 600", `"timeout_seconds":900`, fmt.Sprintf(`"exec_id":"run-%d"`, i)))
		s.next()
		s.close()
	}
	testkit.Eventually(t, long, func() error {
		if n := open.Load(); n != 0 {
			return fmt.Errorf("%d connections are open", n)
		}
		return nil
	})
}

// counter counts connections that are open.
type counter struct{ atomic.Int64 }

type counted struct {
	guest.Conn
	open *counter
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// The specification says of every field that is always there that it is, and of no other.
func TestSpecificationOfExecs(t *testing.T) {
	w := newWorkshop(t)
	for name, want := range map[string][]string{
		"Exec": nil, "ExecEvent": nil, "ExecExitEvent": {"duration_ms", "exit_code", "type"}, "ExecResult": {"duration_ms", "exit_code", "stderr", "stdout"},
	} {
		if got := slices.Sorted(slices.Values(w.schemas()[name].Required)); !slices.Equal(got, want) {
			t.Errorf("%s always has %q, want %q", name, got, want)
		}
	}
}
