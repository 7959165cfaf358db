package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

func TestExecAnswersWithWhatTheCommandDid(t *testing.T) {
	w := newWorkshop(t)
	if err := os.Mkdir(filepath.Join(w.helper.Dir, "workspace", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body, stdout, stderr string
		code                 int
	}{
		"text for the shell":    {`{"command":"echo $((1+1)); echo bad >&2; exit 3"}`, "2\n", "bad\n", 3},
		"words":                 {`{"command":["printf","%s|","a b","$HOME"]}`, "a b|$HOME|", "", 0},
		"environment":           {`{"command":"echo $OWN $MORE","env":{"MORE":"and this"}}`, "of the sandbox and this\n", "", 0},
		"environment goes over": {`{"command":"echo $OWN","env":{"OWN":"mine"}}`, "mine\n", "", 0},
		"input":                 {`{"command":["cat"],"stdin":"typed\n"}`, "typed\n", "", 0},
		"input as bytes":        {`{"command":["cat"],"stdin_base64":"aGk="}`, "hi", "", 0},
		"no input":              {`{"command":["cat"]}`, "", "", 0},
		"relative directory":    {`{"command":"pwd | sed s,.*/,,","cwd":"sub"}`, "sub\n", "", 0},
		"absolute directory":    {`{"command":["pwd"],"cwd":"/"}`, "/\n", "", 0},
		"killed":                {`{"command":"kill -9 $$"}`, "", "", 137},
	} {
		got := w.exec(c.body)
		if got.Stdout != c.stdout || got.Stderr != c.stderr || got.ExitCode != c.code || got.ExecID != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := w.exec(`{"command":"kill -9 $$"}`); got.Signal != "KILL" {
		t.Errorf("signal %q", got.Signal)
	}
	if got := into[api.ExecResult](w.post("/api/v1/sandbox/box/exec", shell("echo old")).is(http.StatusOK)); got.Stdout != "old\n" {
		t.Errorf("older callers get %+v", got)
	}
}

func TestExecThatCannotRunIsAnAnswer(t *testing.T) {
	w := newWorkshop(t)
	if err := os.WriteFile(filepath.Join(w.helper.Dir, "workspace", "plain"), []byte("not a program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for body, code := range map[string]int{
		`{"command":["no-such-command-anywhere"]}`:          127,
		`{"command":["./no-such-file"]}`:                    127,
		`{"command":["./plain"]}`:                           126,
		`{"command":["/"]}`:                                 126,
		`{"command":["true"],"cwd":"/no/such/place"}`:       126,
		`{"command":["sleep","600"],"timeout_seconds":0.2}`: 124,
	} {
		if got := w.exec(body); got.ExitCode != code || got.Reason == "" {
			t.Errorf("%s: %+v, want %d with a reason", body, got, code)
		}
	}
	// Every answer has these.
	for _, body := range []string{`{"command":["/"]}`, `{"command":["/"],"exec_id":"none"}`, `{"command":["true"]}`} {
		var fields map[string]any
		a := w.post(w.box+"/exec", body).is(http.StatusOK)
		if err := json.Unmarshal(a.body, &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"exit_code", "stdout", "stderr", "duration_ms"} {
			if _, has := fields[name]; !has {
				t.Errorf("%s: no %s in %s", body, name, a.body)
			}
		}
	}
}

func TestExecThatTimesOutKeepsWhatItWrote(t *testing.T) {
	w := newWorkshop(t)
	got := w.exec(shell("echo early; sleep 600", `"timeout_seconds":1.5`))
	if got.ExitCode != 124 || got.Stdout != "early\n" || got.DurationMS < 1400 || !strings.Contains(got.Reason, "1.5s") {
		t.Errorf("%+v", got)
	}
}

// The time of a request bounds the server's work, not the command's.
func TestExecOutlivesTheRequestTimeout(t *testing.T) {
	w := newWorkshop(t, func(o *Options) { o.RequestTimeout, o.ExecTimeout = 500*time.Millisecond, 2500*time.Millisecond })
	for _, header := range []map[string]string{nil, {idempotencyHeader: "k"}} {
		ask := call{method: http.MethodPost, path: w.box + "/exec", key: w.write, body: shell("sleep 1; echo done"), header: header}
		if got := into[api.ExecResult](w.do(ask).is(http.StatusOK)); got.Stdout != "done\n" || got.DurationMS < 1000 {
			t.Errorf("%+v", got)
		}
	}
	if got := w.exec(shell("sleep 600")); got.ExitCode != 124 {
		t.Errorf("at the server's maximum: %+v", got)
	}
	ask := call{method: http.MethodPost, path: w.box + "/exec", key: w.write, body: shell("echo early; sleep 600"), header: map[string]string{idempotencyHeader: "l"}}
	if got := into[api.ExecResult](w.do(ask).is(http.StatusOK)); got.ExitCode != 124 || got.Stdout != "early\n" {
		t.Errorf("at the server's maximum, with a key: %+v", got)
	}
}

// A client that goes takes a command without an id with it.
func TestExecEndsWithItsClient(t *testing.T) {
	w := newWorkshop(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := w.send(ctx, call{method: http.MethodPost, path: w.box + "/exec", key: w.write, body: shell("echo $$ > mine; sleep 600; true")})
		failed <- err
	}()
	var pid int
	testkit.Eventually(t, long, func() error {
		text, err := os.ReadFile(filepath.Join(w.helper.Dir, "workspace", "mine"))
		if err == nil {
			_, err = fmt.Sscan(string(text), &pid)
		}
		return err
	})
	cancel()
	<-failed
	testkit.Eventually(t, long, func() error {
		if err := syscall.Kill(pid, 0); err == nil {
			return fmt.Errorf("process %d still runs", pid)
		}
		return nil
	})
}

func TestExecHoldsBoundedOutput(t *testing.T) {
	testkit.Proves(t, "E6")
	w := newWorkshop(t)
	got := w.exec(shell("head -c 3000000 /dev/zero | tr '\\0' x; echo done >&2"))
	if len(got.Stdout) != defaultOutput || !got.StdoutTruncated || got.Stderr != "done\n" || got.StderrTruncated {
		t.Errorf("%d bytes, truncated %v, stderr %q", len(got.Stdout), got.StdoutTruncated, got.Stderr)
	}
	got = w.exec(shell("printf 123456; printf 123 >&2", `"max_output_bytes":3`))
	if got.Stdout != "123" || !got.StdoutTruncated || got.Stderr != "123" || got.StderrTruncated {
		t.Errorf("%+v", got)
	}
}

func TestExecOutputThatIsNoText(t *testing.T) {
	w := newWorkshop(t)
	got := w.exec(shell(`printf '\377\000\1'; printf 'é' >&2`))
	stdout, stderr := got.Output()
	if got.Stdout != "" || string(stdout) != "\xff\x00\x01" || got.Stderr != "é" || got.StderrBase64 != nil || string(stderr) != "é" {
		t.Errorf("%+v", got)
	}
}

func TestBadExecs(t *testing.T) {
	w := newWorkshop(t)
	for body, field := range map[string]string{
		``:                                      "body",
		`{}`:                                    "command",
		`{"command":""}`:                        "command",
		`{"command":[]}`:                        "command",
		`{"command":[""]}`:                      "command",
		`{"command":["a",1]}`:                   "command",
		`{"command":{"a":1}}`:                   "command",
		`{"command":"x","comand":"y"}`:          "comand",
		`{"Command":"x"}`:                       "ommand",
		`{"command":"x","command":"y"}`:         "command",
		`{"command":"x\u0000"}`:                 "NUL",
		`{"command":"x","user":"daemon"}`:       "user",
		`{"command":"x","env":{"A=B":"c"}}`:     "env",
		`{"command":"x","env":{"A":1}}`:         "env",
		`{"command":"x","timeout_seconds":-1}`:  "timeout_seconds",
		`{"command":"x","timeout_seconds":1e9}`: "timeout_seconds",
		`{"command":"x","stdin":"a","stdin_base64":"YQ=="}`:           "stdin",
		`{"command":"x","stdin_base64":"?"}`:                          "stdin_base64",
		`{"command":"x","max_output_bytes":99999999}`:                 "max_output_bytes",
		`{"command":"x","keep":9999999999}`:                           "keep",
		`{"command":"x","exec_id":"Not An Id"}`:                       "exec_id",
		`{"command":"x","exec_id":"` + strings.Repeat("a", 65) + `"}`: "exec_id",
		`{"command":"x","open_stdin":true}`:                           "open_stdin",
		`{"command":"x","terminal":{"cols":80,"rows":24}}`:            "terminal",
		`{"command":"x","user":"root"}`:                               "root", // this helper has none
	} {
		if p := w.post(w.box+"/exec", body).fails(api.CodeInvalidRequest); !strings.Contains(p.Detail, field) {
			t.Errorf("%s: %q does not name %q", body, p.Detail, field)
		}
	}
	for _, body := range []string{`{"command":[]}`, `{"command":""}`, `{"command":7}`, `{}`, `{"command":[""]}`} {
		if p := w.post(w.box+"/exec", body).fails(api.CodeInvalidRequest); p.Detail != "body.command: "+api.CommandForm {
			t.Errorf("%s: %q", body, p.Detail)
		}
	}
	if p := w.post(w.box+"/exec", shell("true", fmt.Sprintf(`"keep":%d`, guest.MostKept+1))).fails(api.CodeInvalidRequest); !strings.Contains(p.Detail, "256 MiB") {
		t.Errorf("%q does not say how much is kept at most", p.Detail)
	}
	w.post(w.box+"/exec?follow=true", shell("true")).fails(api.CodeInvalidRequest)
	w.post(sandboxesPath+"/none-such/exec", shell("true")).fails(api.CodeNotFound)
	w.do(call{method: http.MethodPost, path: w.box + "/exec", key: w.read, body: shell("true")}).fails(api.CodeForbidden)
	w.do(call{method: http.MethodPost, path: w.box + "/exec", body: shell("true")}).fails(api.CodeUnauthenticated)
}

// The arguments of a command are in no log.
func TestExecSecretsStaySecret(t *testing.T) {
	testkit.Proves(t, "E5")
	w := newWorkshop(t)
	const canary = "canary-of-an-exec"
	w.exec(shell("true", `"env":{"TOKEN":"`+canary+`"}`))
	w.post(w.box+"/exec", shell("true", `"env":{"TOKEN":"`+canary+`"}`, `"user":"root"`)).is(http.StatusBadRequest)
	w.post(w.box+"/exec", shell("true", `"env":{"TOKEN":"`+canary+`","A B":"`+canary+`"}`)).is(http.StatusBadRequest)
	if text := w.log.String(); strings.Contains(text, canary) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(canary))) {
		t.Error("the log holds the value of an environment variable")
	}
}

func TestUsingAStoppedSandboxStartsIt(t *testing.T) {
	testkit.Proves(t, "V3")
	w := newWorkshop(t)
	if s := into[api.Sandbox](w.post(w.box+"/stop", "").is(http.StatusOK)); s.State != "stopped" {
		t.Fatalf("stopped: %+v", s)
	}
	if got := w.exec(shell("echo up")); got.Stdout != "up\n" {
		t.Errorf("%+v", got)
	}
	if s := into[api.Sandbox](w.get(w.box).is(http.StatusOK)); s.State != "running" {
		t.Errorf("it is %s", s.State)
	}
}

func TestLifecycle(t *testing.T) {
	w := newWorkshop(t)
	for _, step := range []struct{ verb, state string }{
		{"stop", "stopped"}, {"stop", "stopped"}, {"start", "running"}, {"freeze", "running"}, {"thaw", "running"}, {"restart", "running"},
	} {
		if s := into[api.Sandbox](w.post(w.box+"/"+step.verb, "").is(http.StatusOK)); s.State != step.state || s.ID != w.id {
			t.Errorf("after %s it is %s", step.verb, s.State)
		}
		w.do(call{method: http.MethodPost, path: w.box + "/" + step.verb, key: w.read}).fails(api.CodeForbidden)
		w.post(sandboxesPath+"/none-such/"+step.verb, "").fails(api.CodeNotFound)
	}
	w.remove(w.box).is(http.StatusNoContent)
	w.post(sandboxesPath+"/"+w.id+"/start", "").fails(api.CodeDeleted)
}

func TestDriverWithoutHelpers(t *testing.T) {
	s := newSite(t)
	s.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated)
	s.post(sandboxesPath+"/box/exec", shell("true")).fails(api.CodeUnsupported)
	s.do(call{path: sandboxesPath + "/box/ports/80/", key: s.write}).fails(api.CodeUnsupported)
}
