package template_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
)

// order is which hooks run, in their order.
func order(specs []hook.Spec) string {
	var all []string
	for _, s := range specs {
		all = append(all, string(s.Phase)+":"+s.Title())
	}
	return strings.Join(all, " ")
}

// Defaults come first, unless a template drops them or says where it wants them.
func TestHooksInTheirOrder(t *testing.T) {
	testkit.Proves(t, "H5", "H6")
	r := at(t, `
[templates.more]
extends = "default"
hooks = [{phase = "stream_finish", command = "a"}]
[templates.wrapped]
extends = "more"
hooks = [
  {phase = "stream_finish", command = ["before"], name = "before"},
  {phase = "stream_finish", builtin = "push"},
  {phase = "stream_finish", command = ["after"], name = "after"},
]
[templates.own]
extends = "wrapped"
default_hooks = false
hooks = [{phase = "terminate", url = "http://10.0.0.1/x", secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", allow_private = true}]
[templates.empty]
extends = "own"
hooks = []
[templates.dropped]
extends = "default"
drop_hooks = ["store", "push"]
[templates.around]
extends = "default"
drop_hooks = ["pull", "store", "tally", "push", "log"]
[templates.pulled]
extends = "default"
hooks = [{phase = "cold_start", command = ["before"], name = "before"}, {phase = "cold_start", builtin = "pull"}]
`).registry(t)
	for name, want := range map[string]string{
		"default": "%sstream_finish:push terminate:log",
		"demo":    "%sstream_finish:push terminate:log",
		"none":    "%s",
		"github":  "%sstream_finish:push terminate:log cold_start:clone",
		"more":    "%sstream_finish:push terminate:log stream_finish:command",
		"wrapped": "%sterminate:log stream_finish:before stream_finish:push stream_finish:after",
		"own":     "%sterminate:webhook",
		"empty":   "%s",
		"dropped": "cold_start:pull stream_finish:tally terminate:log",
		"around":  "",
		"pulled":  "message:store stream_finish:tally stream_finish:push terminate:log cold_start:before cold_start:pull",
		"nosuch":  "",
	} {
		want = strings.TrimSpace(strings.Replace(want, "%s", "cold_start:pull message:store stream_finish:tally ", 1))
		if got := order(r.Hooks(name)); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestHooksWrittenInGo(t *testing.T) {
	testkit.Proves(t, "H6")
	r := template.New(template.Options{})
	ran := false
	run := func(context.Context, *hook.Data) error { ran = true; return nil }
	if err := r.Add(template.Template{Name: "mine", Extends: "none", Hooks: []template.Hook{{Phase: "message", Run: run}}}); err != nil {
		t.Fatal(err)
	}
	specs := r.Hooks("mine")
	if !strings.HasSuffix(order(specs), " message:function") || specs[len(specs)-1].Run(t.Context(), nil) != nil || !ran {
		t.Errorf("%+v", specs)
	}
	if err := r.Add(template.Template{Name: "mine", Hooks: []template.Hook{{Phase: "message"}}}); err == nil || !strings.Contains(err.Error(), "templates.mine.hooks[1] does nothing") {
		t.Errorf("%v", err)
	}
}

func TestBadDropHooksAreRefusedWithWords(t *testing.T) {
	testkit.Proves(t, "H5")
	for keys, want := range map[string]string{
		`drop_hooks = ["clone"]`: `.drop_hooks = "clone" (FILE:2) is no default hook; write some of: pull, store, tally, push, log`,
		`drop_hooks = ["push"]` + "\n" + `hooks = [{phase = "stream_finish", builtin = "push"}]`: `.drop_hooks = "push" (FILE:2) is listed in hooks, too`,
		`drop_hooks = ["pull"]` + "\n" + `s3_key_prefix = "docs/{account}"`:                      `.drop_hooks = "pull" (FILE:2) is needed where sandboxes share a workspace`,
	} {
		p := at(t, "[templates.x]\n"+keys+"\n")
		_, report := p.load(t)
		said := fmt.Sprint(report.Err())
		if len(report.Problems) != 1 || !strings.Contains(said, "templates.x"+strings.ReplaceAll(want, "FILE", "file "+p.file)) {
			t.Errorf("%s: want %s, got\n%s", keys, want, said)
		}
	}
}

func TestBadHooksAreRefusedWithWords(t *testing.T) {
	testkit.Proves(t, "H6")
	const secret = `secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`
	for hooks, want := range map[string]string{
		`{phase = "sometimes", command = "a"}`: `.hooks[1].phase = "sometimes" (FILE:2) is no phase; write one of: cold_start, message, stream_finish, version.saved, terminate`,
		`{command = "a"}`:                      `.hooks[1].phase (FILE:2) is no phase`,
		`{phase = "message"}`:                  `.hooks[1] (FILE:2) does nothing, or more than one thing; write one of command, url and builtin`,
		`{phase = "message", command = "a"}, {phase = "message", builtin = "nope"}`:                                                `.hooks[2].builtin = "nope" (FILE:2) is no hook that Berth has`,
		`{phase = "message", builtin = "push"}`:                                                                                    `.hooks[1].builtin = "push" (FILE:2) is a hook of another phase; write phase = "stream_finish"`,
		`{phase = "message", command = [""]}`:                                                                                      `.hooks[1].command (FILE:2) has no program`,
		`{phase = "message", command = 1}`:                                                                                         `.hooks[1].command (FILE:2) is no command`,
		`{phase = "message", comand = "a"}`:                                                                                        `.hooks[1].comand (FILE:2) is not a key of templates; did you mean command?`,
		`{phase = "message", command = "a", timeout = "soon"}`:                                                                     `.hooks[1].timeout (FILE:2) is not a duration`,
		`{phase = "message", command = "a", timeout = true}`:                                                                       `.hooks[1].timeout (FILE:2) has a type that does not fit`,
		`{phase = "message", command = "a", timeout = 0}`:                                                                          `.hooks[1].timeout (FILE:2) is no time to run`,
		`{phase = "message", command = "a", timeout = "2h"}`:                                                                       `.hooks[1].timeout = "2h0m0s" (FILE:2) is longer than an hour`,
		`{phase = "message", command = "a", name = "a\nb"}`:                                                                        `.hooks[1].name = "a\nb" (FILE:2) is no name`,
		`{phase = "message", command = "a", ` + secret + `}`:                                                                       `.hooks[1] (FILE:2) has a secret or allow_private, and no url`,
		`{phase = "message", url = "ftp://secret-value.test"}`:                                                                     `.hooks[1].url (FILE:2) is no address of a webhook`,
		`{phase = "message", url = "https://joe:secret-value@a.test"}`:                                                             `.hooks[1].url (FILE:2) has a user in it`,
		`{phase = "message", url = "http://a.test/secret-value"}`:                                                                  `.hooks[1].url = "http://a.test" (FILE:2) is not https`,
		`{phase = "message", url = "https://a.test"}`:                                                                              `.hooks[1].secret (FILE:2) is no secret to sign with; write "whsec_"`,
		`{phase = "message", url = "https://a.test", secret = "whsec_c2VjcmV0"}`:                                                   `.hooks[1].secret (FILE:2) is no secret to sign with`,
		`{phase = "message", url = "https://a.test", ` + secret + `}, {phase = "message", url = "https://a.test", ` + secret + `}`: `.hooks[2].url (FILE:2) is called twice in one phase`,
		strings.Join(many(33, `{phase = "message", command = "%d"}`), ", "):                                                        `.hooks (FILE:2) are 33, more than 32`,
	} {
		p := at(t, "[templates.x]\nhooks = ["+hooks+"]\n")
		_, report := p.load(t)
		said := fmt.Sprint(report.Err())
		if len(report.Problems) != 1 || !strings.Contains(said, "templates.x"+strings.ReplaceAll(want, "FILE", "file "+p.file)) {
			t.Errorf("%s: want %s, got\n%s", hooks, want, said)
		}
		if strings.Contains(said, "secret-value") {
			t.Errorf("%s: tells a secret:\n%s", hooks, said)
		}
	}
	_, report := at(t, "[templates.x]\nruntime = \"nope\"\n").load(t)
	if said := fmt.Sprint(report.Err()); !strings.Contains(said, `templates.x.runtime = "nope"`) || !strings.Contains(said, "is no runtime of this Berth; write one of: acp, claude-cli, demo") {
		t.Error(said)
	}
}

// The program of a template's agent is mounted beside the template's own mounts, and never over them.
func TestProgramsAreMounted(t *testing.T) {
	p := at(t, `
[templates.more]
extends = "claude_code"
mounts = [{source = "/usr/share", target = "/opt/share"}]
[templates.own]
extends = "claude_code"
mounts = [{source = "/usr/share", target = "/opt/claude"}]
`)
	r := p.registry(t)
	claude := driver.Mount{Source: program.Dir(p.data, "claude_code"), Target: "/opt/claude"}
	share := driver.Mount{Source: "/usr/share", Target: "/opt/share"}
	for name, want := range map[string][]driver.Mount{
		"claude_code": {claude}, "github": {claude}, "more": {share, claude}, "default": {},
		"own": {{Source: "/usr/share", Target: "/opt/claude"}},
	} {
		var spec driver.Spec
		if err := r.Prepare(sandbox.Sandbox{Spec: sandbox.Spec{Template: name}}, &spec); err != nil || !slices.Equal(spec.Mounts, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, spec.Mounts, err, want)
		}
	}
}
