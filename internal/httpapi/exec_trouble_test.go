package httpapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

func TestHelperThatCannotBeReached(t *testing.T) {
	w := newWorkshop(t)
	w.stream(shell("true", `"exec_id":"over"`)).rest()
	for down, code := range map[error]api.Code{
		guest.ErrGone:          api.CodeNotRunning,
		errors.New("a riddle"): api.CodeDriverUnreachable,
		fault.Errorf("reach", api.CodeWrongHost, "it is elsewhere"): api.CodeWrongHost,
	} {
		w.down = down
		w.post(w.box+"/exec", shell("true")).fails(code)
		w.watch(http.MethodPost, w.box+"/exec", shell("true")).answer().fails(code)
		w.get(w.box + "/exec").fails(code)
		w.get(w.box + "/exec/over").fails(code)
		w.post(w.box+"/exec/over/signal", `{"signal":"INT"}`).fails(code)
		w.do(call{path: w.box + "/ports/8080/", key: w.write}).fails(code)
	}
	// The spool is there all the same.
	if _, _, exit := w.attach("over", 0).rest(); exit.ExitCode != 0 {
		t.Errorf("%+v", exit)
	}
}

// A command that writes on while its reader stands still is answered with what was read, and says so.
func TestOutputThatIsTrimmedWhileItIsCollected(t *testing.T) {
	w := newWorkshop(t)
	w.patience = 50 * time.Millisecond
	conn := w.helper.Connect(t)
	w.output = func(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error] {
		for after == 0 {
			status, err := conn.Process(process).Status(ctx)
			if err != nil || status.First > 0 {
				break
			}
		}
		return guest.Output(ctx, w.spools(), process, after, w.patience)
	}
	got := w.exec(shell("head -c 2000000 /dev/zero | tr '\\0' x; echo >&2 last; exit 3", `"exec_id":"flood"`, `"keep":1`))
	if !got.StdoutTruncated || !got.StderrTruncated || got.ExitCode != 3 || got.Stderr != "last\n" {
		t.Errorf("%d bytes, %+v", len(got.Stdout), got.ExecExit)
	}
	w.output = func(context.Context, string, int64) iter.Seq2[guest.Chunk, error] {
		return func(func(guest.Chunk, error) bool) {}
	}
	w.post(w.box+"/exec", shell("true", `"exec_id":"silent"`)).fails(api.CodeNotRunning)
	w.output = func(context.Context, string, int64) iter.Seq2[guest.Chunk, error] {
		return func(yield func(guest.Chunk, error) bool) { yield(guest.Chunk{}, errors.New("the disk is gone")) }
	}
	w.post(w.box+"/exec", shell("true", `"exec_id":"broken"`)).fails(api.CodeDriverUnreachable)
	if event, _ := w.stream(shell("true")).next(); event.Type != api.EventError || event.Error.Code != api.CodeDriverUnreachable {
		t.Errorf("%+v", event)
	}
}

// An id of the caller's own does not make another's command its own, not even with a key.
func TestKeyDoesNotJoinAnotherCommand(t *testing.T) {
	w := newWorkshop(t)
	w.stream(shell("echo first", `"exec_id":"mine"`)).rest()
	w.watch(http.MethodPost, w.box+"/exec", shell("echo second", `"exec_id":"mine"`), idempotencyHeader, "k").answer().fails(api.CodeExecExists)
	if stdout, _, _ := w.stream(shell("echo first", `"exec_id":"mine"`), idempotencyHeader, "l").rest(); stdout != "first\n" {
		t.Errorf("the same command: %q", stdout)
	}
}

func TestStreamOfARefusedRequestIsRefusedAgain(t *testing.T) {
	w := newWorkshop(t)
	body := shell("true", `"user":"root"`) // this helper has none
	w.do(call{method: http.MethodPost, path: w.box + "/exec", key: w.write, body: body, header: map[string]string{idempotencyHeader: "k"}}).fails(api.CodeInvalidRequest)
	w.watch(http.MethodPost, w.box+"/exec", body, idempotencyHeader, "k").answer().is(http.StatusBadRequest)
}

// A client that is gone is noticed at the next event, and costs the command nothing.
func TestStreamStopsWithItsClient(t *testing.T) {
	w := newWorkshop(t)
	s := w.stream(shell("while :; do echo x; sleep 0.05; done", `"exec_id":"loud"`))
	s.next()
	s.close()
	testkit.Eventually(t, long, func() error {
		if n := w.holds.Load(); n != 0 {
			return fmt.Errorf("%d holds are left", n)
		}
		return nil
	})
	if status := into[api.ExecStatus](w.get(w.box + "/exec/loud").is(http.StatusOK)); !status.Running {
		t.Errorf("%+v", status)
	}
}
