package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

func TestStreamTellsWhatTheCommandDoes(t *testing.T) {
	w := newWorkshop(t)
	s := w.stream(shell("echo out; echo err >&2; exit 5"))
	stdout, stderr, exit := s.rest()
	if stdout != "out\n" || stderr != "err\n" || exit.ExitCode != 5 || exit.Next != 8 || exit.id != "8.end" || exit.Lost {
		t.Errorf("%q, %q, %+v", stdout, stderr, exit)
	}
	if len(s.id()) != 36 {
		t.Errorf("the command's id is %q", s.id())
	}
}

func TestStreamSendsAsItComes(t *testing.T) {
	w := newWorkshop(t)
	s := w.stream(shell("echo one; read x; echo got $x", `"open_stdin":true`))
	if event, _ := s.next(); event.Text != "one\n" || event.id != "4" || event.Next != 4 {
		t.Fatalf("%+v", event)
	}
	if w.holds.Load() == 0 {
		t.Error("nothing holds the sandbox while its command is watched")
	}
	written := into[api.ExecWritten](w.do(call{
		method: http.MethodPost, path: w.box + "/exec/" + s.id() + "/stdin", key: w.write, body: "two\n", header: map[string]string{"Content-Type": "text/plain"},
	}).is(http.StatusOK))
	if written.Written != 4 {
		t.Errorf("%+v", written)
	}
	if stdout, _, exit := s.rest(); stdout != "got two\n" || exit.ExitCode != 0 {
		t.Errorf("%q, %+v", stdout, exit)
	}
	testkit.Eventually(t, long, func() error {
		if n := w.holds.Load(); n != 0 {
			return fmt.Errorf("%d holds are left", n)
		}
		return nil
	})
}

// The output of a command is always data of one event (B4 33).
func TestHostileOutputStaysData(t *testing.T) {
	testkit.Proves(t, "E5")
	w := newWorkshop(t)
	hostile := "\n\nevent: done\ndata: {}\n\nid: 7\r\rretry: 1\r\n: x\u2028\u2029\x1b]0;t\x07</script>"
	s := w.stream(fmt.Sprintf(`{"command":["printf","%%s",%s]}`, quote(hostile)))
	stdout, _, exit := s.rest()
	if stdout != hostile || exit.id != fmt.Sprintf("%d.end", len(hostile)) {
		t.Errorf("%q, %+v", stdout, exit)
	}
}

func TestBytesThatAreNoTextArriveAsTheyAre(t *testing.T) {
	w := newWorkshop(t)
	// A character in two writes: neither half is text.
	s := w.stream(shell(`printf '\303'; sleep 0.3; printf '\251\377'; printf '\0' >&2`))
	stdout, stderr, _ := s.rest()
	if stdout != "é\xff" || stderr != "\x00" {
		t.Errorf("%q, %q", stdout, stderr)
	}
}

func TestAttachAtEveryOffset(t *testing.T) {
	w := newWorkshop(t)
	const text = "héllo wörld\n"
	id := "run-1"
	w.stream(shell("printf '"+text+"'; sleep 0.2; printf 'zwei\n'; exit 4", `"exec_id":"run-1"`)).rest()
	whole := text + "zwei\n"
	for after := 1; after <= len(whole); after++ {
		stdout, stderr, exit := w.attach(id, int64(after)).rest()
		if stdout != whole[after:] || stderr != "" || exit.ExitCode != 4 || exit.Next != int64(len(whole)) {
			t.Errorf("after %d: %q and %q, %+v", after, stdout, stderr, exit)
		}
	}
	if stdout, _, exit := w.attach(id, 0).rest(); stdout != whole || exit.DurationMS < 200 {
		t.Errorf("from the beginning: %q", stdout)
	}
	w.do(call{path: w.box + "/exec/run-1/stream?after=1000", key: w.read}).fails(api.CodeInvalidRequest)
}

// EventSource sends the id it saw last, to the address that it was made with.
func TestEventSourceResumesAndStops(t *testing.T) {
	w := newWorkshop(t)
	w.stream(shell("printf abc", `"exec_id":"run"`)).rest()
	stdout, _, exit := w.attach("run", 0, "Last-Event-ID", "1").rest()
	if stdout != "bc" {
		t.Errorf("%q", stdout)
	}
	if a := w.do(call{path: w.box + "/exec/run/stream?after=0", key: w.read, header: map[string]string{"Last-Event-ID": exit.id}}).is(http.StatusNoContent); len(a.body) != 0 {
		t.Errorf("204 with %q", a.body)
	}
	for _, bad := range []string{"x", "-1", "1.5", "9.end.end", "99999999999999999999"} {
		w.do(call{path: w.box + "/exec/run/stream", key: w.read, header: map[string]string{"Last-Event-ID": bad}}).fails(api.CodeInvalidRequest)
	}
	for _, bad := range []string{"after=-1", "after=x", "after=1&after=2", "afer=1"} {
		w.do(call{path: w.box + "/exec/run/stream?" + bad, key: w.read}).fails(api.CodeInvalidRequest)
	}
}

func TestDroppedClientLosesNothing(t *testing.T) {
	w := newWorkshop(t)
	s := w.stream(shell("echo one; read x; echo two; exit 6", `"open_stdin":true`))
	event, _ := s.next()
	s.close()
	w.do(call{method: http.MethodPost, path: w.box + "/exec/" + s.id() + "/stdin?close=true", key: w.write}).is(http.StatusOK)
	if stdout, _, exit := w.attach(s.id(), event.Next).rest(); stdout != "two\n" || exit.ExitCode != 6 {
		t.Errorf("%q, %+v", stdout, exit)
	}
}

func TestTwoReadersSeeTheSame(t *testing.T) {
	w := newWorkshop(t)
	s := w.stream(shell("read x; for i in 1 2 3 4 5 6 7 8; do echo $i; echo e$i >&2; done", `"open_stdin":true`))
	second := w.attach(s.id(), 0)
	w.do(call{method: http.MethodPost, path: w.box + "/exec/" + s.id() + "/stdin", key: w.write, body: "\n"}).is(http.StatusOK)
	var all sync.WaitGroup
	var texts [2]string
	for i, reader := range []*watcher{s, second} {
		all.Go(func() {
			stdout, stderr, exit := reader.rest()
			texts[i] = fmt.Sprint(stdout, stderr, exit.Next, exit.ExitCode)
		})
	}
	all.Wait()
	if texts[0] != texts[1] || !strings.Contains(texts[0], "8\ne1") {
		t.Errorf("%q and %q", texts[0], texts[1])
	}
}

// flood writes 64 MiB in lines of 16 bytes that are all different.
const (
	flood      = "seq -f %015.0f 1 4194304; echo done >&2; exit 3"
	floodBytes = 64 << 20
)

// floodSum is the SHA-256 of what flood writes to stdout.
func floodSum() string {
	h := sha256.New()
	for i := 1; i <= floodBytes/16; i++ {
		fmt.Fprintf(h, "%015d\n", i)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// A command waits for a reader that is slow, and the reader gets every byte.
func TestSlowReaderGetsEveryByte(t *testing.T) {
	testkit.Proves(t, "E6")
	w := newWorkshop(t)
	w.patience = time.Hour
	s := w.stream(shell(flood, `"keep":1000000`, `"exec_id":"flood"`))
	before := int64(-1)
	testkit.Eventually(t, long, func() error {
		status := into[api.ExecStatus](w.get(w.box + "/exec/flood").is(http.StatusOK))
		still := status.End == before && status.End > 0
		before = status.End
		if !status.Running || !still {
			return fmt.Errorf("the command does not wait: %+v", status)
		}
		return nil
	})
	if before >= floodBytes {
		t.Fatalf("the command wrote all of its %d bytes without waiting", before)
	}
	sum, stderr, n := sha256.New(), "", 0
	for event, ok := s.next(); ok; event, ok = s.next() {
		switch event.Type {
		case api.EventStdout:
			n += len(event.Data())
			sum.Write(event.Data())
		case api.EventStderr:
			stderr += event.Text
		case api.EventExit:
			if event.ExitCode != 3 || event.Dropped != 0 || event.Next != floodBytes+5 {
				t.Errorf("%+v", event)
			}
		default:
			t.Errorf("%+v", event)
		}
	}
	if n != floodBytes || fmt.Sprintf("%x", sum.Sum(nil)) != floodSum() || stderr != "done\n" {
		t.Errorf("%d bytes of %d came, or others than were written; then %q", n, floodBytes, stderr)
	}
}

// A reader that stands still is waited for only so long. It learns how much it missed, and how the command ended.
func TestReaderThatStandsStillIsDropped(t *testing.T) {
	testkit.Proves(t, "E6")
	w := newWorkshop(t)
	w.patience = 300 * time.Millisecond
	s := w.stream(shell(flood, `"keep":100000`, `"exec_id":"flood"`))
	if status := w.over("flood"); status.Exit.ExitCode != 3 || status.First == 0 || status.End != floodBytes+5 {
		t.Fatalf("%+v, want a trimmed spool", status)
	}
	got, dropped := int64(0), int64(0)
	var last seen
	for event, ok := s.next(); ok; event, ok = s.next() {
		last = event
		if event.Type == api.EventDropped {
			dropped += event.Dropped
			if event.Next != got+dropped || event.id != "" {
				t.Errorf("after %d bytes: %+v", got, event)
			}
			continue
		}
		got += int64(len(event.Data()))
	}
	if dropped == 0 || got+dropped != floodBytes+5 || last.Type != api.EventExit || last.ExitCode != 3 || last.Dropped != dropped {
		t.Errorf("%d bytes came, %d were dropped, and the last event is %+v", got, dropped, last)
	}
	w.do(call{path: w.box + "/exec/flood/stream?after=1", key: w.read}).fails(api.CodeOutputTrimmed)
	back := w.attach("flood", 0, "Last-Event-ID", "16")
	if event, _ := back.next(); event.Type != api.EventDropped || event.Dropped != event.Next-16 {
		t.Errorf("a reader that comes back first sees %+v", event)
	}
	if _, stderr, exit := back.rest(); stderr != "done\n" || exit.ExitCode != 3 || exit.Dropped == 0 {
		t.Errorf("the rest: %q, %+v", stderr, exit)
	}
}

// A command without readers never waits.
func TestDetachedCommandNeverWaits(t *testing.T) {
	w := newWorkshop(t)
	w.patience = time.Hour
	s := w.stream(shell("read x; "+flood, `"keep":100000`, `"exec_id":"flood"`, `"open_stdin":true`))
	s.close()
	testkit.Eventually(t, long, func() error { // until the server has noticed
		if n := w.holds.Load(); n != 0 {
			return fmt.Errorf("%d holds are left", n)
		}
		return nil
	})
	w.do(call{method: http.MethodPost, path: w.box + "/exec/flood/stdin", key: w.write, body: "\n"}).is(http.StatusOK)
	if status := w.over("flood"); status.Exit.ExitCode != 3 || status.First == 0 || status.End != floodBytes+5 {
		t.Fatalf("%+v, want a trimmed spool", status)
	}
}

func TestStreamedCommandIsKilledAtItsLimit(t *testing.T) {
	w := newWorkshop(t)
	s := w.stream(shell("echo begun; sleep 600", `"timeout_seconds":2`, `"exec_id":"slow"`))
	if event, _ := s.next(); event.Text != "begun\n" {
		t.Fatalf("%+v", event)
	}
	s.close() // no reader is attached when its time is over
	_, _, exit := w.attach("slow", 6).rest()
	if exit.ExitCode != 124 || exit.Signal != "KILL" || exit.Reason == "" || exit.DurationMS < 1900 {
		t.Errorf("%+v %+v", exit, exit.ExecExit)
	}
	if status := w.over("slow"); status.Exit.ExitCode != 124 {
		t.Errorf("%+v", status)
	}
}

func TestCommandsThatCannotRunEndAtOnce(t *testing.T) {
	w := newWorkshop(t)
	for command, code := range map[string]int{`["no-such-command-anywhere"]`: 127, `["/"]`: 126} {
		_, _, exit := w.stream(`{"command":` + command + `}`).rest()
		if exit.ExitCode != code || exit.Reason == "" {
			t.Errorf("%s: %+v", command, exit.ExecExit)
		}
	}
}

func TestExecIDIsTakenOnce(t *testing.T) {
	w := newWorkshop(t)
	w.stream(shell("echo first", `"exec_id":"mine"`)).rest()
	if p := w.watch(http.MethodPost, w.box+"/exec", shell("echo second", `"exec_id":"mine"`)).answer().fails(api.CodeExecExists); !strings.Contains(p.Detail, "mine") {
		t.Errorf("%q does not name the id", p.Detail)
	}
	w.post(w.box+"/exec", shell("echo third", `"exec_id":"mine"`)).fails(api.CodeExecExists)
	got := w.exec(shell("echo fourth; echo e >&2; exit 2", `"exec_id":"waited-for"`))
	if got.Stdout != "fourth\n" || got.Stderr != "e\n" || got.ExitCode != 2 || got.ExecID != "waited-for" {
		t.Errorf("%+v", got)
	}
	if stdout, _, _ := w.attach("waited-for", 0).rest(); stdout != "fourth\n" {
		t.Errorf("%q", stdout)
	}
}

func TestUnknownExecs(t *testing.T) {
	w := newWorkshop(t)
	for _, id := range []string{"none", "UPPER", "a.b", strings.Repeat("x", 65)} {
		w.get(w.box + "/exec/" + id).fails(api.CodeNoSuchExec)
		w.get(w.box + "/exec/" + id + "/stream").fails(api.CodeNoSuchExec)
		w.post(w.box+"/exec/"+id+"/stdin", `"x"`).fails(api.CodeNoSuchExec)
		w.post(w.box+"/exec/"+id+"/signal", `{"signal":"INT"}`).fails(api.CodeNoSuchExec)
		w.post(w.box+"/exec/"+id+"/resize", `{"cols":1,"rows":1}`).fails(api.CodeNoSuchExec)
	}
}

func TestExecsAreListedNewestFirst(t *testing.T) {
	w := newWorkshop(t)
	if list := into[api.List[api.ExecStatus]](w.get(w.box + "/exec").is(http.StatusOK)); len(list.Items) != 0 {
		t.Fatalf("%+v", list)
	}
	w.stream(shell("echo a; exit 3", `"exec_id":"a"`)).rest()
	w.over("a")
	b := w.stream(shell("read x", `"exec_id":"b"`, `"open_stdin":true`))
	list := into[api.List[api.ExecStatus]](w.get(w.box + "/exec").is(http.StatusOK)).Items
	if len(list) != 2 || list[0].ExecID != "b" || !list[0].Running || list[0].Exit != nil || list[1].Running || list[1].Exit.ExitCode != 3 || list[1].End != 2 || list[0].Command[2] != "read x" {
		t.Errorf("%+v", list)
	}
	w.post(w.box+"/exec/b/signal", `{"signal":"sigterm"}`).is(http.StatusNoContent)
	if _, _, exit := b.rest(); exit.Signal != "TERM" || exit.ExitCode != 143 {
		t.Errorf("%+v", exit.ExecExit)
	}
	w.over("b")
	w.post(w.box+"/exec/b/signal", `{"signal":"TERM"}`).fails(api.CodeNoSuchExec)
	w.post(w.box+"/exec/b/signal", `{"signal":"NOPE"}`).fails(api.CodeInvalidRequest)
	w.post(w.box+"/exec/b/stdin", `"x"`).fails(api.CodeConflict)
	w.post(w.box+"/exec/b/stdin?close=perhaps", ``).fails(api.CodeInvalidRequest)
}

func TestOutputOutlivesTheInstance(t *testing.T) {
	w := newWorkshop(t)
	w.stream(shell("echo over; exit 3", `"exec_id":"over"`)).rest()
	running := w.stream(shell("echo $$ >> pid; echo under way; exec sleep 600", `"exec_id":"running"`))
	flood := w.stream(shell("head -c 3000000 /dev/zero | tr '\\0' x; echo $$ >> pid; exec sleep 600", `"exec_id":"trimmed"`, `"keep":100000`))
	flood.close()
	if event, _ := running.next(); event.Text != "under way\n" {
		t.Fatalf("%+v", event)
	}
	testkit.Eventually(t, long, func() error {
		if s := into[api.ExecStatus](w.get(w.box + "/exec/trimmed").is(http.StatusOK)); s.End != 3000000 {
			return fmt.Errorf("%+v", s)
		}
		if text, _ := os.ReadFile(filepath.Join(w.helper.Dir, "workspace", "pid")); strings.Count(string(text), "\n") != 2 {
			return fmt.Errorf("not both run: %q", text)
		}
		return nil
	})
	w.die()
	if _, _, exit := running.rest(); !exit.Lost || exit.ExitCode != -1 {
		t.Errorf("a watched command whose instance ended: %+v", exit.ExecExit)
	}
	for id, want := range map[string]string{"over": "over\n", "running": "under way\n"} {
		stdout, _, exit := w.attach(id, 0).rest()
		if stdout != want || exit.Lost != (id == "running") {
			t.Errorf("%s: %q, %+v", id, stdout, exit.ExecExit)
		}
		if status := into[api.ExecStatus](w.get(w.box + "/exec/" + id).is(http.StatusOK)); status.Running || status.End != int64(len(want)) {
			t.Errorf("%s: %+v", id, status)
		}
	}
	if stdout, _, _ := w.attach("trimmed", 0).rest(); len(stdout) < 100000 || len(stdout) > 1000000 {
		t.Errorf("%d bytes are left of a trimmed output", len(stdout))
	}
	w.do(call{path: w.box + "/exec/trimmed/stream?after=1", key: w.read}).fails(api.CodeOutputTrimmed)
	w.get(w.box + "/exec/none").fails(api.CodeNoSuchExec)
	w.get(w.box + "/exec/none/stream").fails(api.CodeNoSuchExec)
	w.post(w.box+"/exec/over/signal", `{"signal":"INT"}`).fails(api.CodeNotRunning)
	if list := into[api.List[api.ExecStatus]](w.get(w.box + "/exec").is(http.StatusOK)); len(list.Items) != 0 {
		t.Errorf("%+v", list)
	}
	if s := into[api.Sandbox](w.get(w.box).is(http.StatusOK)); s.State != "stopped" {
		t.Errorf("reading started it: %s", s.State)
	}
}

func TestStdinOfStreamedCommands(t *testing.T) {
	w := newWorkshop(t)
	big := strings.Repeat("0123456789abcdef", 20000) // more than a pipe holds
	s := w.stream(fmt.Sprintf(`{"command":"sleep 0.2; wc -c","stdin":%s}`, quote(big)))
	if stdout, _, _ := s.rest(); strings.TrimSpace(stdout) != fmt.Sprint(len(big)) {
		t.Errorf("%q", stdout)
	}
	if stdout, _, _ := w.stream(shell("read a; read b; echo $a $b", `"stdin":"1\n2\n"`, `"open_stdin":true`)).rest(); stdout != "1 2\n" {
		t.Errorf("%q", stdout)
	}
}

// Input that a command does not take is given back, not waited for until the request breaks.
func TestInputThatIsNotRead(t *testing.T) {
	w := newWorkshop(t, func(o *Options) { o.RequestTimeout = 4 * time.Second })
	s := w.stream(shell("sleep 600", `"open_stdin":true`))
	body := strings.Repeat("x", 500000)
	got := into[api.ExecWritten](w.do(call{method: http.MethodPost, path: w.box + "/exec/" + s.id() + "/stdin", key: w.write, body: body}).is(http.StatusOK))
	if got.Written <= 0 || got.Written >= int64(len(body)) {
		t.Errorf("%+v", got)
	}
}

// One key, one command, however often its request is sent and in whichever form.
func TestExecIsRepeatedSafely(t *testing.T) {
	w := newWorkshop(t)
	body := shell("echo x >> count; wc -l < count")
	send := func(key string) answer {
		return w.do(call{method: http.MethodPost, path: w.box + "/exec", key: w.write, body: body, header: map[string]string{idempotencyHeader: key}})
	}
	for range 3 {
		if got := into[api.ExecResult](send("json").is(http.StatusOK)); strings.TrimSpace(got.Stdout) != "1" || got.ExecID == "" {
			t.Errorf("%+v", got)
		}
	}
	first := w.stream(body, idempotencyHeader, "stream")
	stdout, _, _ := first.rest()
	for range 3 {
		again := w.stream(body, idempotencyHeader, "stream")
		if text, _, _ := again.rest(); text != stdout || strings.TrimSpace(text) != "2" || again.id() != first.id() || again.res.Header.Get(replayedHeader) != "true" {
			t.Errorf("%q, then %q under %s and %s", stdout, text, first.id(), again.id())
		}
	}
	if text, _, _ := w.stream(body, idempotencyHeader, "json").rest(); strings.TrimSpace(text) != "1" {
		t.Errorf("the stream of what was waited for: %q", text)
	}
	w.watch(http.MethodPost, w.box+"/exec", shell("echo other"), idempotencyHeader, "stream").answer().fails(api.CodeKeyReused)
	w.watch(http.MethodPost, w.box+"/exec", body, idempotencyHeader, "").answer().fails(api.CodeInvalidKey)
}

// A server that dies while a command runs is asked again by its client; the next one finds the command.
func TestExecAfterACrashIsJoined(t *testing.T) {
	w := newWorkshop(t, func(o *Options) { o.ClaimTTL = time.Second })
	body := shell("echo x >> count; echo begun; read x; wc -l < count", `"stdin":""`, `"timeout_seconds":50`)
	hang := make(chan struct{})
	w.trouble = func(c guest.Conn) guest.Conn { return &cut{c, hang} }
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := w.send(ctx, call{method: http.MethodPost, path: w.box + "/exec", key: w.write, body: body, header: map[string]string{idempotencyHeader: "k"}})
		failed <- err
	}()
	<-hang // it was started, and the answer is lost
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.trouble = func(c guest.Conn) guest.Conn { return c }
	testkit.Eventually(t, long, func() error {
		a := w.do(call{method: http.MethodPost, path: w.box + "/exec", key: w.write, body: body, header: map[string]string{idempotencyHeader: "k"}})
		if a.status == http.StatusConflict {
			return fmt.Errorf("in flight: %s", a.body)
		}
		if got := into[api.ExecResult](a.is(http.StatusOK)); !strings.HasPrefix(got.Stdout, "begun\n1") {
			t.Fatalf("%+v", got)
		}
		return nil
	})
}

// cut is a connection over which one process is started, and then nothing is heard.
type cut struct {
	guest.Conn
	hang chan struct{}
}

func (c *cut) Start(ctx context.Context, id string, cmd guest.Cmd) error {
	if err := c.Conn.Start(ctx, id, cmd); err != nil {
		return err
	}
	close(c.hang)
	<-ctx.Done()
	return ctx.Err()
}

func TestDrainEndsStreamsAndNotCommands(t *testing.T) {
	w := newWorkshop(t)
	s := w.stream(shell("read x; echo $x", `"open_stdin":true`))
	w.Drain()
	if event, more := s.next(); more {
		t.Fatalf("%+v", event)
	}
	status := into[api.ExecStatus](w.get(w.box + "/exec/" + s.id()).is(http.StatusOK))
	if !status.Running {
		t.Errorf("%+v", status)
	}
}

func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return strings.TrimSpace(b.String())
}
