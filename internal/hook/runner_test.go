package hook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

var _ engine.Hooks = (*hook.Runner)(nil)

// Every outcome of every hook: the answer to its caller, the log, and that the caller goes on.
func TestEveryHookEveryOutcome(t *testing.T) {
	testkit.Proves(t, "X8", "H1", "H2", "H3", "H8")
	outcomes := map[string]struct {
		run  hook.Func
		said string // empty: it succeeds
		took time.Duration
	}{
		"success": {run: func(context.Context, *hook.Data) error { <-time.After(time.Second); return nil }, took: time.Second},
		"error":   {run: func(context.Context, *hook.Data) error { return errors.New("no luck with " + canary) }, said: "hook mine: no luck with [redacted]"},
		"timeout": {run: func(ctx context.Context, _ *hook.Data) error { <-ctx.Done(); return ctx.Err() }, said: "hook mine: timed out after 7s: context deadline exceeded", took: 7 * time.Second},
		"deaf":    {run: func(context.Context, *hook.Data) error { <-time.After(time.Hour); return nil }, said: "hook mine: timed out after 7s: it does not end, and is left behind", took: 12 * time.Second},
		"panic":   {run: func(context.Context, *hook.Data) error { return explode() }, said: "hook mine: panic: boom"},
		"exit":    {run: func(context.Context, *hook.Data) error { runtime.Goexit(); return nil }, said: "hook mine: it ended its goroutine"},
	}
	for phase, begin := range phases {
		for name, o := range outcomes {
			t.Run(string(phase)+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					next := 0
					r, j := runner(
						hook.Spec{Name: "mine", Phase: phase, Timeout: 7 * time.Second, Run: o.run},
						hook.Spec{Name: "next", Phase: phase, Run: func(context.Context, *hook.Data) error { next++; return nil }},
					)
					begun := time.Now()
					warnings, err := begin(t.Context(), r)
					if took := time.Since(begun); took != o.took {
						t.Errorf("took %s", took)
					}
					failed := o.said != ""
					if critical := phase == hook.OnColdStart; critical && failed {
						if err == nil || err.Error() != "run cold start hooks: "+o.said || fault.CodeOf(err) != api.CodeHookFailed || next != 0 {
							t.Errorf("the start got %v, and %d hooks ran on", err, next)
						}
					} else if err != nil || next != 1 {
						t.Errorf("the caller got %v, and %d hooks ran on", err, next)
					}
					if phase == hook.OnStreamFinish && strings.Join(warnings, ";") != o.said {
						t.Errorf("warnings %q", warnings)
					}
					checkLog(t, j, phase, failed, name == "panic")
					time.Sleep(2 * time.Hour) // for the one that was left behind
				})
			})
		}
	}
}

func explode() error { panic("boom") }

// checkLog checks the log of the hook "mine".
func checkLog(t *testing.T, j *journal, phase hook.Phase, failed, panicked bool) {
	t.Helper()
	message, level := "hook ran", "INFO"
	if failed {
		message, level = "hook failed", "ERROR"
	}
	all := j.entries(t, message)
	if len(all) == 0 {
		t.Fatalf("nothing is logged: %s", &j.text)
	}
	e := all[0]
	want := map[string]any{"level": level, "type": string(phase), "hook": "mine", "template": "web", "owner_kind": "conversation", "owner_id": "conv", "sandbox_id": "0198-box", "tenant": "acme"}
	for key, value := range want {
		if e[key] != value {
			t.Errorf("%s is %v, not %v", key, e[key], value)
		}
	}
	if _, err := time.ParseDuration(fmt.Sprint(e["duration"])); err != nil {
		t.Error(err)
	}
	if !failed {
		return
	}
	if turn := phase == hook.OnMessage || phase == hook.OnStreamFinish; turn && (e["message_id"] != "msg" || e["turn_id"] != "turn" || e["conversation_id"] != "conv") {
		t.Errorf("%v", e)
	}
	if stack := fmt.Sprint(e["stack"]); !strings.Contains(stack, "goroutine") || panicked && !strings.Contains(stack, "explode") {
		t.Errorf("stack %s", stack)
	}
	if strings.Contains(fmt.Sprint(e), canary) {
		t.Errorf("a secret is logged: %v", e)
	}
}

// The caller of a turn's hooks logs with the turn's fields, too.
func TestFieldsAreLoggedOnce(t *testing.T) {
	testkit.Proves(t, "H8")
	r, j := runner(hook.Spec{Phase: hook.OnStreamFinish, Run: func(context.Context, *hook.Data) error { return nil }})
	ctx := telemetry.With(t.Context(), slog.String("turn_id", "turn"), slog.String("conversation_id", "conv"))
	r.StreamFinish(ctx, someData())
	for _, field := range []string{"turn_id", "conversation_id"} {
		if n := strings.Count(j.text.String(), `"`+field+`":`); n != 1 {
			t.Errorf("%s is logged %d times: %s", field, n, &j.text)
		}
	}
}

// Time that a phase gives if a hook says nothing.
func TestTimesOfPhases(t *testing.T) {
	for phase, want := range map[hook.Phase]time.Duration{
		hook.OnColdStart: 10 * time.Minute, hook.OnMessage: time.Minute, hook.OnStreamFinish: time.Minute, hook.OnTerminate: time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			var left time.Duration
			r, _ := runner(hook.Spec{Phase: phase, Run: func(ctx context.Context, _ *hook.Data) error {
				end, _ := ctx.Deadline()
				left = time.Until(end)
				return nil
			}})
			if _, err := phases[phase](t.Context(), r); err != nil || left != want {
				t.Errorf("%s: %s, %v", phase, left, err)
			}
		})
	}
}

// A hook whose caller goes is not late.
func TestCallerThatGoesIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := runner(hook.Spec{Phase: hook.OnColdStart, Run: func(ctx context.Context, _ *hook.Data) error { <-ctx.Done(); return ctx.Err() }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.ColdStart(ctx, someSandbox(), "i-1"); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timed out") {
			t.Error(err)
		}
	})
}

func TestHooksGetTheirDataAndLeaveTheirs(t *testing.T) {
	testkit.Proves(t, "H1")
	r, _ := runner(
		hook.Spec{Phase: hook.OnStreamFinish, Run: func(_ context.Context, d *hook.Data) error {
			if d.Version != "" || d.Phase != hook.OnStreamFinish || d.Sandbox.S3.Prefix != "docs/acme/" || d.Sandbox.Incarnation != 3 || d.Sandbox.Owner.Kind != "conversation" || d.Usage.InputTokens != 3 {
				t.Errorf("%+v", d)
			}
			d.Version, d.TurnID = "v8", "spoiled"
			return errors.Join(d.SetMetadata("a", "1"), d.SetStat("builds", 2))
		}},
		hook.Spec{Phase: hook.OnMessage, Run: func(context.Context, *hook.Data) error { t.Error("a hook of another phase ran"); return nil }},
		hook.Spec{Phase: hook.OnStreamFinish, Run: func(_ context.Context, d *hook.Data) error {
			if d.Version != "v8" || d.TurnID != "turn" {
				t.Errorf("%+v", d)
			}
			return errors.Join(d.SetMetadata("b", "2"), d.SetStat("builds", 3))
		}},
	)
	r.S3 = func(sandbox.Sandbox) *hook.S3 { return &hook.S3{Prefix: "docs/acme/"} }
	d := someData()
	if warnings := r.StreamFinish(t.Context(), d); len(warnings) > 0 {
		t.Error(warnings)
	}
	r, _ = runner(hook.Spec{Phase: hook.OnTerminate, Run: func(_ context.Context, d *hook.Data) error {
		if d.Version != "v7" {
			t.Errorf("version %q", d.Version)
		}
		return nil
	}})
	if err := r.Terminate(t.Context(), someSandbox()); err != nil {
		t.Error(err)
	}
	if m := d.Metadata(); len(m) != 2 || m["a"] != "1" || m["b"] != "2" || d.Stats()["builds"] != 3 || d.Version != "v8" || d.TurnID != "turn" {
		t.Errorf("%v %v %s", m, d.Stats(), d.Version)
	}
}

// Hooks cannot set what Berth counts, nor values that cannot be stored.
func TestTotalsAreReadOnly(t *testing.T) {
	testkit.Proves(t, "H1")
	d := someData()
	for _, key := range []string{"messages_exchanged", "total_input_tokens", "total_output_tokens", "total_cache_tokens", "total_cost_usd", "total_anything", "", "Builds", "a b", "1a", strings.Repeat("a", 64)} {
		if err := d.SetStat(key, 1); err == nil {
			t.Errorf("%q was set", key)
		}
	}
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if err := d.SetStat("n", value); err == nil {
			t.Errorf("%v was set", value)
		}
	}
	for i := range 32 {
		if err := d.SetStat(fmt.Sprintf("k%d", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if d.SetStat("one_more", 1) == nil || d.SetStat("k1", 2) != nil || d.Stats()["k1"] != 2 {
		t.Error("there is no end of keys")
	}
	if d.SetMetadata("a", "\x00") == nil || len(d.Metadata()) > 0 {
		t.Error("metadata that cannot be stored was set")
	}
}

// A hook that this server cannot run is an error of the hook.
func TestHooksThatThisServerCannotRun(t *testing.T) {
	r, _ := runner(hook.Spec{Phase: hook.OnColdStart, Builtin: hook.Clone})
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err == nil || !strings.Contains(err.Error(), "hook clone: this server cannot run it") {
		t.Error(err)
	}
	r, _ = runner(hook.Spec{Phase: hook.OnColdStart, Command: []string{"true"}})
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err == nil || !strings.Contains(err.Error(), "hook command: reach the sandbox: the driver staffed cannot look into a sandbox") {
		t.Error(err)
	}
	r.drivers = nil
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err == nil || !strings.Contains(err.Error(), "which is not configured here") {
		t.Error(err)
	}
	r, _ = runner(hook.Spec{Phase: hook.OnMessage, Run: func(_ context.Context, d *hook.Data) error {
		if cmd, err := d.Command(t.Context(), guest.Cmd{Argv: []string{"a"}}); err != nil || len(cmd.Argv) != 1 {
			t.Errorf("%+v", cmd)
		}
		return nil
	}})
	r.Metrics = nil
	r.Message(t.Context(), someData())
}

func TestHooksAreCounted(t *testing.T) {
	r, _ := runner(
		hook.Spec{Phase: hook.OnTerminate, Run: func(context.Context, *hook.Data) error { return nil }},
		hook.Spec{Phase: hook.OnTerminate, Run: func(context.Context, *hook.Data) error { return errors.New("no") }},
	)
	if err := r.Terminate(t.Context(), someSandbox()); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r.Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`berth_hook_runs_total{outcome="ok",phase="terminate"} 1`, `berth_hook_runs_total{outcome="error",phase="terminate"} 1`, `berth_hook_duration_seconds_count{phase="terminate"} 2`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}
