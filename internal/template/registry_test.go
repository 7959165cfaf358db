package template_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
)

func TestTemplatesWrittenInGo(t *testing.T) {
	testkit.Proves(t, "H6")
	r := template.New(template.Options{DataDir: t.TempDir()})
	env := map[string]string{"A": "b"}
	err := r.Add(template.Template{Name: "mine", Extends: "default", ProfileType: "full", Env: env, Timers: template.Timers{AutoStop: template.After(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	env["A"] = "spoiled"
	got := lookup(t, r, "mine")
	if got.Driver != "local" || got.Runtime != "demo" || got.Profile != "full" || got.Env["A"] != "b" || got.Timers.AutoStop.String() != "1h" {
		t.Errorf("%+v", got)
	}
	err = r.Add(template.Template{Name: "Bad Name", Extends: "nope", User: "joe", Memory: -1, Disk: template.Disk{Kind: "nope"}})
	for _, want := range []string{"templates.Bad Name = \"Bad Name\" has no usable name", "is no template; write one of: claude_code, codex, copilot, cursor, default, demo, gemini, github, goose, mine, none, opencode, qwen, sandbox_agent", "is no user", "memory", "auto, soft, loop"} {
		if err == nil || fault.CodeOf(err) != api.CodeInvalidConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestUnknownTemplates(t *testing.T) {
	r := template.New(template.Options{})
	if _, err := r.Lookup("gone"); fault.CodeOf(err) != api.CodeUnknownTemplate || !strings.Contains(err.Error(), "there are: claude_code, codex, copilot, cursor, default, demo, gemini, github, goose, none, opencode, qwen, sandbox_agent") {
		t.Errorf("%v", err)
	}
	// A sandbox outlives its template's section: it is not started as something else.
	err := r.Prepare(sandbox.Sandbox{Spec: sandbox.Spec{Template: "gone"}}, new(driver.Spec))
	if fault.CodeOf(err) != api.CodeUnknownTemplate {
		t.Errorf("%v", err)
	}
	noEnv, _ := r.Env(t.Context(), "default", "gone")
	s := sandbox.Sandbox{Spec: sandbox.Spec{Template: "gone"}, Owner: sandbox.Owner{Kind: sandbox.OwnerThread}}
	if r.User("gone") != "agent" || len(noEnv) > 0 || r.Policy(s) != sandbox.DefaultPolicy(sandbox.OwnerThread) || r.Spec("gone").Driver != "" {
		t.Error("an unknown template has something of its own")
	}
}

func TestTimersAsTheyAreWritten(t *testing.T) {
	for want, timer := range map[string]template.Timer{"": {}, "off": template.After(0), "15m": template.After(15 * time.Minute)} {
		if got := timer.String(); got != want {
			t.Errorf("%+v is %q, want %q", timer, got, want)
		}
	}
	var command template.Command
	if err := command.UnmarshalTOML("make all"); err != nil || strings.Join(command, "|") != "/bin/sh|-c|make all" {
		t.Errorf("%q, %v", command, err)
	}
}
