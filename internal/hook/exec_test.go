package hook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest/guesttest"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/testkit"
)

func shell(phase hook.Phase, script string) hook.Spec {
	return hook.Spec{Phase: phase, Command: []string{"/bin/sh", "-c", script}}
}

// read is a file of the sandbox's workspace.
func (s *staffed) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.helper.Dir, "workspace", name))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return string(text)
}

// A command in every phase, however it goes.
func TestCommandsInEveryPhase(t *testing.T) {
	testkit.Proves(t, "H6", "X8")
	for phase, begin := range phases {
		for name, c := range map[string]struct{ script, said string }{
			"success": {"echo ran >> ran", ""},
			"error":   {"echo ran >> ran; seq 100 >&2; echo oh no $TOKEN >&2; exit 3", "hook command: the command exited with 3: 92\n93\n94\n95\n96\n97\n98\n99\n100\noh no [redacted]"},
			"missing": {"echo ran >> ran; exec no-such-program", "the command exited with 127"},
		} {
			t.Run(string(phase)+"/"+name, func(t *testing.T) {
				r, j := runner(shell(phase, c.script))
				s := inBox(t, r)
				warnings, err := begin(t.Context(), r)
				if s.read("ran") != "ran\n" {
					t.Errorf("it did not run: %s", &j.text)
				}
				message := strings.Join(warnings, ";")
				if err != nil {
					message = err.Error()
				}
				if quiet := phase == hook.OnMessage || phase == hook.OnTerminate; quiet && message != "" || !quiet && !strings.Contains(message, c.said) || c.said == "" && message != "" {
					t.Errorf("got %q", message)
				}
				if failed := len(j.entries(t, "hook failed")); failed != min(len(c.said), 1) {
					t.Errorf("%d failures are logged", failed)
				}
			})
		}
	}
}

// A command that does not end is killed inside, whether or not a server waits for it.
func TestCommandThatDoesNotEnd(t *testing.T) {
	testkit.Proves(t, "X8")
	spec := shell(hook.OnColdStart, "echo $$ > pid; echo waiting; exec sleep 1000")
	spec.Timeout = time.Second
	r, _ := runner(spec)
	s := inBox(t, r)
	err := r.ColdStart(t.Context(), someSandbox(), "i-1")
	if err == nil || !strings.Contains(err.Error(), "timed out after 1s") && !strings.Contains(err.Error(), "exited with 124") {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if pid := strings.TrimSpace(s.read("pid")); alive(pid) {
			return fmt.Errorf("process %s still runs", pid)
		}
		return nil
	})
}

// alive reports whether a process runs; a zombie does not.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestWhatACommandIsTold(t *testing.T) {
	testkit.Proves(t, "H1", "H6")
	r, j := runner(shell(hook.OnStreamFinish, "cat > event; env > env"))
	s := inBox(t, r, "MINE=template")
	d := someData()
	d.Version = "v7"
	if warnings := r.StreamFinish(t.Context(), d); len(warnings) > 0 {
		t.Fatal(warnings, &j.text)
	}
	for _, want := range []string{
		"BERTH_HOOK_PHASE=stream_finish", "BERTH_CONVERSATION_ID=conv", "BERTH_TURN_ID=turn", "BERTH_MESSAGE_ID=msg", "BERTH_MESSAGE_ROLE=assistant",
		"BERTH_SANDBOX_ID=0198-box", "BERTH_INCARNATION=3", "BERTH_VERSION=v7", "BERTH_TURN_STATUS=completed", "BERTH_TEMPLATE=web",
		"BERTH_OWNER_KIND=conversation", "BERTH_OWNER_ID=conv", "MINE=template", "TOKEN=" + canary,
	} {
		if !strings.Contains("\n"+s.read("env"), "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, s.read("env"))
		}
	}
	var event struct {
		Type string
		Data struct {
			ConversationID string `json:"conversation_id"`
			Message        api.Message
			Usage          api.Usage
			Sandbox        hook.Info
		}
	}
	text := s.read("event")
	if err := json.Unmarshal([]byte(text), &event); err != nil || strings.Count(text, "\n") != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	if event.Type != "stream_finish" || event.Data.ConversationID != "conv" || event.Data.Message.Text() != "hello" || event.Data.Usage.OutputTokens != 4 || event.Data.Sandbox.ID != "0198-box" {
		t.Errorf("%+v", event)
	}
	if strings.Contains(text, canary) {
		t.Error("the event tells a secret")
	}
}

// A server that died while a command ran, or before it had written its input, is followed by one that waits
// for it and does not run it again.
func TestCommandRunsOnceForOneThing(t *testing.T) {
	testkit.Proves(t, "H4")
	for phase, begin := range phases {
		t.Run(string(phase), func(t *testing.T) {
			spec := shell(phase, "echo ran >> ran; cat > event; while [ ! -e go ]; do sleep 0.01; done; exit 5")
			first, _ := runner(spec)
			s := inBox(t, first)
			ctx, die := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = begin(ctx, first)
			}()
			testkit.Eventually(t, time.Minute, func() error {
				if s.read("ran") == "" || s.read("event") == "" {
					return fmt.Errorf("it does not run yet")
				}
				return nil
			})
			die()
			<-done
			if err := os.WriteFile(filepath.Join(s.helper.Dir, "workspace", "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				second, j := runner(spec)
				second.drivers, second.env = first.drivers, first.env
				_, _ = begin(t.Context(), second)
				if failed := j.entries(t, "hook failed"); len(failed) != 1 || !strings.Contains(fmt.Sprint(failed[0]["error"]), "exited with 5") {
					t.Errorf("the next server did not see how it ended: %v", failed)
				}
			}
			if got := s.read("ran"); got != "ran\n" {
				t.Errorf("it ran %d times", strings.Count(got, "ran"))
			}
			if got := s.read("event"); strings.Count(got, "\n") != 1 {
				t.Errorf("its input was %q", got)
			}
		})
	}
}

// Each start of an instance is another cold start; two hooks, turns or messages are two things.
func TestCommandRunsForEachThing(t *testing.T) {
	spec := shell(hook.OnMessage, "echo ran >> ran")
	r, _ := runner(spec, spec)
	s := inBox(t, r)
	for i := range 3 {
		d := someData()
		d.Message.ID = fmt.Sprint("m", i)
		r.Message(t.Context(), d)
	}
	if got := strings.Count(s.read("ran"), "ran"); got != 6 {
		t.Errorf("ran %d times", got)
	}
	cold, _ := runner(shell(hook.OnColdStart, "echo started >> started"))
	cold.drivers, cold.env = r.drivers, r.env
	for range 2 {
		for range 2 { // the same start again, as its next server would
			if err := cold.ColdStart(t.Context(), someSandbox(), "i-1"); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.read("started"); got != "started\n" {
			t.Errorf("one start ran it %d times", strings.Count(got, "started"))
		}
		s.helper = guesttest.NewHelper(t)
	}
}

// The output of a command is bounded, and so is what errors repeat of it.
func TestCommandThatFloods(t *testing.T) {
	r, _ := runner(shell(hook.OnColdStart, `yes "$(head -c 5000 /dev/zero | tr '\0' x)" | head -c 20000000; printf '\001\033[31m\377 the end'; exit 1`))
	inBox(t, r)
	err := r.ColdStart(t.Context(), someSandbox(), "i-1")
	if err == nil || len(err.Error()) > 3000 || !strings.HasSuffix(err.Error(), "[31m\uFFFD the end") {
		t.Fatalf("%d bytes: %.200q", len(fmt.Sprint(err)), fmt.Sprint(err))
	}
}

func TestCommandsWithoutASandbox(t *testing.T) {
	r, _ := runner(shell(hook.OnColdStart, "true"))
	s := inBox(t, r)
	if err := r.ColdStart(t.Context(), someSandbox(), "i-2"); err == nil || !strings.Contains(err.Error(), "reach the sandbox") {
		t.Error(err)
	}
	r.env["NAME\x00"] = "no variable"
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err == nil || !strings.Contains(err.Error(), "start the command") {
		t.Error(err)
	}
	s.helper.Kill(t)
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err == nil || !strings.Contains(err.Error(), "look for the command") {
		t.Error(err)
	}
}
