package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
)

func TestBashRunsACommand(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.Env = []string{"OWN=of the sandbox"}
	r := w.call("bash", args{"command": `echo out; echo err >&2; pwd; echo "$OWN"; [[ x == x ]] && echo bash`})
	want := "out\n" + w.Workspace() + "\nof the sandbox\nbash\n"
	is(t, "text", r.Text(), want+"[stderr]\nerr\n")
	if r.IsError || r.ExitCode == nil || *r.ExitCode != 0 || r.Truncated || r.DurationMS < 0 {
		t.Errorf("%+v", r)
	}
	var apart struct{ Stdout, Stderr string }
	raw, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &apart)
	}
	if err != nil || apart.Stdout != want || apart.Stderr != "err\n" {
		t.Errorf("%s, %v", raw, err)
	}
	is(t, "silence", w.ok("bash", args{"command": "true"}), "(no output)")
	is(t, "cwd", w.ok("bash", args{"command": "pwd", "cwd": "/"}), "/\n")
	w.put("sub/x", "")
	is(t, "relative cwd", w.ok("bash", args{"command": "ls", "cwd": "sub"}), "x\n")
}

// What a command could not do is for the agent to read.
func TestBashThatFailsIsAResult(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	for command, want := range map[string]struct {
		code int
		text string
	}{
		"echo no >&2; exit 3": {3, "[stderr]\nno\n[exit code 3]"},
		"printf no; exit 1":   {1, "no\n[exit code 1]"},
		"no-such-program":     {127, "not found"},
		"kill -9 $$":          {137, "[exit code 137]"},
	} {
		r := w.call("bash", args{"command": command})
		if !r.IsError || r.ExitCode == nil || *r.ExitCode != want.code {
			t.Errorf("%s: %+v", command, r)
		}
		has(t, r.Text(), want.text)
	}
	r := w.call("bash", args{"command": "true", "cwd": "/missing"})
	if !r.IsError || *r.ExitCode != 126 {
		t.Errorf("%+v", r)
	}
	has(t, r.Text(), "/missing")
}

func TestBashIsKilledWhenItsTimeIsOver(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	for _, c := range []struct{ inner, outer float64 }{{0.5, 0}, {900, 0.5}, {0.5, 900}} {
		r := w.call("bash", args{"command": "sleep 1000", "timeout": c.inner}, c.outer)
		if !r.IsError || *r.ExitCode != 124 {
			t.Errorf("%+v", r)
		}
		has(t, r.Text(), "[exit code 124: killed after 500ms]")
	}
	// What it wrote until then is there, once it had the time to.
	for limit := 0.5; ; limit *= 4 {
		r := w.call("bash", args{"command": "echo begun; sleep 1000", "timeout": limit})
		if strings.HasPrefix(r.Text(), "begun\n[exit code 124") {
			return
		}
		if limit > 60 {
			t.Fatalf("%+v", r)
		}
	}
}

// A caller that leaves ends the command, and there is no result.
func TestBashEndsWithItsCaller(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := builtin.Call(ctx, w.Handle(), api.ExecuteTool{ToolName: "bash", Arguments: json.RawMessage(`{"command":"echo $$ > pid; mv pid begun; exec sleep 1000"}`)})
		ended <- err
	}()
	var text []byte
	testkit.Eventually(t, time.Minute, func() (err error) {
		text, err = os.ReadFile(w.at("begun"))
		return err
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
			return fmt.Errorf("it still runs: %s", state)
		}
		return nil
	})
}

// An image without bash has a shell all the same.
func TestBashWithoutBash(t *testing.T) {
	w := newWorld(t)
	empty := t.TempDir()
	w.Env = []string{"PATH=" + empty}
	is(t, "text", w.ok("bash", args{"command": "echo $0 is here"}), "/bin/sh is here\n")
	if err := os.WriteFile(filepath.Join(empty, "bash"), []byte("#!/bin/sh\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := w.call("bash", args{"command": "echo twice"}); *r.ExitCode != 127 {
		t.Errorf("a command that is not found inside ran twice: %+v", r)
	}
}

// Berth's own trouble is an error with its code, whatever the tool.
func TestTroubleOfBerthIsAnError(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.Gone.Store(true)
	w.Down = fault.Errorf("reach sandbox", api.CodeDriverUnreachable, "the driver is on strike")
	for _, c := range []struct {
		tool string
		in   args
	}{
		{"bash", args{"command": "true"}}, {"read", args{"file_path": "x"}}, {"write", args{"file_path": "x", "content": ""}},
		{"edit", args{"file_path": "x", "old_string": "a", "new_string": "b"}},
		{"glob", args{"pattern": "*"}}, {"grep", args{"pattern": "x"}}, {"list", args{}},
	} {
		_, err := w.try(c.tool, c.in)
		isCode(t, c.tool, err, api.CodeDriverUnreachable)
	}
	w.Down = nil
	w.put("x", "x")
	has(t, w.ok("list", args{}), "x  1") // reaching the inside brought it back
	w.Kill(t)
	_, err := w.try("bash", args{"command": "true"})
	isCode(t, "a dead helper", err, api.CodeNotRunning)
}

// Of whatever an output is too long by, the beginning and the end are there, and the reported rest
// is.
func TestOutputIsCutInTheMiddle(t *testing.T) {
	w := newWorld(t)
	all := new(strings.Builder)
	for i := 0; all.Len() < 250_000; i++ {
		fmt.Fprintf(all, "%d\n", i)
	}
	for _, n := range []int{1, 28_999, 29_000, 29_001, 30_000, 30_001, 45_000, 60_000, 60_001, 200_000} {
		w.put("out", all.String()[:n])
		r := w.call("bash", args{"command": "cat out"})
		if r.Truncated != (n > 29_000) {
			t.Fatalf("%d bytes: truncated %v", n, r.Truncated)
		}
		if !r.Truncated {
			is(t, fmt.Sprint(n), r.Text(), all.String()[:n])
			continue
		}
		first, rest, _ := strings.Cut(r.Text(), "\n… [")
		left, last, _ := strings.Cut(rest, " bytes left out here] …\n")
		last, _, _ = strings.Cut(last, "(The output was too long")
		if !strings.HasPrefix(all.String()[:n], first) || !strings.HasSuffix(all.String()[:n], strings.TrimSuffix(last, "\n")) && !strings.HasSuffix(all.String()[:n], last) {
			t.Errorf("%d bytes: not the beginning and the end", n)
		}
		if missing := fmt.Sprint(n - 29_000); left != missing {
			t.Errorf("%d bytes: %s left out, want %s", n, left, missing)
		}
	}
}
