package template_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
)

// place is a data directory with a configuration file beside it.
type place struct{ data, file string }

func at(t *testing.T, toml string) place {
	t.Helper()
	dir := t.TempDir()
	p := place{filepath.Join(dir, "data"), filepath.Join(dir, "berth.toml")}
	for _, sub := range []string{"bases/debian/bin", "bases/hollow", "tools"} {
		if err := os.MkdirAll(filepath.Join(p.data, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(p.data, "bases/debian/bin/sh"), "")
	if err := os.MkdirAll(filepath.Join(p.data, "local"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, p.file, strings.ReplaceAll(toml, "DATA", p.data))
	return p
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p place) load(t *testing.T, env ...string) (*template.Registry, template.Report) {
	t.Helper()
	vars := map[string]string{"BERTH_DATA_DIR": p.data}
	for i := 0; i < len(env); i += 2 {
		vars[env[i]] = env[i+1]
	}
	cfg, err := config.Load(config.Sources{File: p.file, Env: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	return template.FromConfig(cfg, []string{"fake", "local"})
}

func (p place) registry(t *testing.T, env ...string) *template.Registry {
	t.Helper()
	r, report := p.load(t, env...)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	return r
}

func lookup(t *testing.T, r *template.Registry, name string) template.Template {
	t.Helper()
	got, err := r.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const everyField = `
[templates.web]
description = "All there is"
tenants = ["acme", "default"]
driver = "fake"
base = "debian"
user = "root"
mounts = [{source = "DATA/tools", target = "/opt/tools"}]
egress = ["api.example.com:443", "*.example.org:443"]
profile = "full"
cpu = 1.5
memory = "768MiB"
disk = "3GiB loop"
processes = 99
image = "img"
model = "opus"
models = ["opus", "sonnet"]
runtime = "claude-cli"
agent_command = ["claude", "-p"]
volume = "vol"
s3_bucket_name = "bucket"
s3_key_prefix = "docs/{account}/"
init_from_s3 = true
sync = false
unreachable = "fence"
unreachable_after = "3m"
turns = 2
default_hooks = false

[templates.web.env]
TOKEN = "canary-in-the-template"

[templates.web.services]
"127.0.0.1:8788" = "http://127.0.0.1:4000"
"127.0.0.1:8789" = {url = "https://model.example", headers = {x-api-key = "$THE_KEY"}}

[templates.web.timers]
auto_stop = "5m"
auto_archive = "off"
max_age = 3600

[[templates.web.hooks]]
name = "deps"
phase = "cold_start"
command = "make"
timeout = "5m"

[[templates.web.hooks]]
phase = "stream_finish"
url = "https://hooks.example.com/x"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

[[templates.web.hooks]]
phase = "stream_finish"
builtin = "push"
`

func TestEveryFieldOfATemplate(t *testing.T) {
	testkit.Proves(t, "H6")
	p := at(t, everyField)
	r, report := p.load(t)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	want := template.Template{
		Name: "web", Description: "All there is", Tenants: []string{"acme", "default"}, Driver: "fake", Base: "debian", User: "root",
		Mounts: []template.Mount{{Source: p.data + "/tools", Target: "/opt/tools"}},
		Env:    map[string]string{"TOKEN": "canary-in-the-template"},
		Egress: template.Egress{"api.example.com:443", "*.example.org:443"},
		Services: map[string]template.Service{
			"127.0.0.1:8788": {URL: "http://127.0.0.1:4000"},
			"127.0.0.1:8789": {URL: "https://model.example", Headers: map[string]string{"x-api-key": "$THE_KEY"}},
		},
		Profile: "full", CPU: 1.5, Memory: 768 << 20, Disk: template.Disk{Bytes: 3 << 30, Kind: "loop"}, Processes: 99,
		Timers: template.Timers{AutoStop: template.After(5 * time.Minute), AutoArchive: template.After(0), MaxAge: template.After(time.Hour)},
		Image:  "img", Runtime: "claude-cli", Model: "opus", Models: []string{"opus", "sonnet"}, AgentCommand: template.Command{"claude", "-p"}, Volume: "vol",
		S3BucketName: "bucket", S3KeyPrefix: "docs/{account}/", InitFromS3: &yes, Sync: &no, Unreachable: "fence", UnreachableAfter: template.After(3 * time.Minute), Turns: 2,
		DefaultHooks: &no,
		Hooks: []template.Hook{
			{Name: "deps", Phase: "cold_start", Command: template.Command{"/bin/sh", "-c", "make"}, Timeout: template.Duration(5 * time.Minute)},
			{Phase: "stream_finish", URL: "https://hooks.example.com/x", Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
			{Phase: "stream_finish", Builtin: "push"},
		},
	}
	if diff := cmp.Diff(want, lookup(t, r, "web")); diff != "" {
		t.Error(diff)
	}
	s := sandbox.Sandbox{Spec: sandbox.Spec{Template: "web", Profile: "lite"}, Owner: sandbox.Owner{Kind: sandbox.OwnerSandbox}}
	spec := driver.Spec{Tenant: "kept"}
	if err := r.Prepare(s, &spec); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(driver.Spec{
		Tenant: "kept", Base: p.data + "/bases/debian",
		Limits:   driver.Limits{CPU: 1.5, MemoryBytes: 768 << 20, DiskBytes: 3 << 30, DiskHard: true, Processes: 99},
		Mounts:   []driver.Mount{{Source: p.data + "/tools", Target: "/opt/tools"}, {Source: program.Dir(p.data, "claude_code"), Target: "/opt/claude"}},
		Egress:   []string{"api.example.com:443", "*.example.org:443"},
		Services: map[string]string{"127.0.0.1:8788": "http://127.0.0.1:4000", "127.0.0.1:8789": "https://model.example"},
	}, spec); diff != "" {
		t.Error(diff)
	}
	timers := sandbox.Timers{Stop: 5 * time.Minute, MaxAge: time.Hour}
	if got := r.Policy(s); got.Timers != timers || got.Unreachable != sandbox.UnseenFence || got.UnreachableAfter != 3*time.Minute {
		t.Errorf("policy %+v", got)
	}
	env, err := r.Env(t.Context(), "default", "web")
	if r.User("web") != "root" || err != nil || env["TOKEN"] != "canary-in-the-template" || !slices.Contains(r.Secrets(), "canary-in-the-template") || !slices.Contains(r.Secrets(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") {
		t.Errorf("user %s, env %v", r.User("web"), env)
	}
	if got := r.Spec("web"); got.Template != "web" || got.Driver != "fake" || got.Profile != "full" {
		t.Errorf("spec %+v", got)
	}
}

// What nothing acts on yet is kept and said, and nothing else is.
func TestUnusedFieldsAreKeptWithAWarning(t *testing.T) {
	p := at(t, everyField)
	_, report := p.load(t)
	var keys []string
	for _, w := range report.Warnings {
		keys = append(keys, strings.TrimPrefix(w.Key, "templates.web."))
		if !strings.Contains(w.String(), "is kept, not used") || !strings.HasPrefix(w.Origin, "file "+p.file+":") {
			t.Errorf("%s", w)
		}
	}
	if got := strings.Join(keys, " "); got != "image volume s3_bucket_name" {
		t.Errorf("warned of %s", got)
	}
}

func TestBuiltInTemplates(t *testing.T) {
	testkit.Proves(t, "H6")
	r := at(t, "").registry(t)
	if got := strings.Join(r.Names(), " "); got != "claude_code codex copilot cursor default demo gemini github goose none opencode qwen sandbox_agent" {
		t.Fatalf("names %s", got)
	}
	for _, name := range r.Names() {
		got, agent := lookup(t, r, name), "demo"
		switch {
		case name == "claude_code" || name == "github":
			agent = "claude-cli"
		case name == "sandbox_agent":
			agent = "sandbox-agent"
		case got.Agent == name:
			agent = "acp"
		}
		if got.Driver != "local" || got.Base != "host" || got.Profile != "standard" || got.User != "agent" || got.Runtime != agent {
			t.Errorf("%+v", got)
		}
		spec := driver.Spec{}
		if err := r.Prepare(sandbox.Sandbox{Spec: sandbox.Spec{Template: name}}, &spec); err != nil || spec.Base != "host" || spec.Limits.CPU != 1 || agent == "demo" && len(spec.Egress)+len(spec.Mounts) > 0 {
			t.Errorf("%+v, %v", spec, err)
		}
	}
	if !template.BuiltIn("none") || template.BuiltIn("web") {
		t.Error("built in is the wrong one")
	}
	// The server's own defaults reach the built-in templates.
	if got := lookup(t, at(t, "").registry(t, "BERTH_DEFAULT_DRIVER", "fake", "SANDBOX_PROFILE_TYPE", "lite"), "default"); got.Driver != "fake" || got.Profile != "lite" {
		t.Errorf("%+v", got)
	}
}

func TestProfiles(t *testing.T) {
	for profile, want := range map[string]driver.Limits{
		"lite":     {CPU: 0.5, MemoryBytes: 512 << 20, DiskBytes: 2 << 30},
		"standard": {CPU: 1, MemoryBytes: 2 << 30, DiskBytes: 10 << 30},
		"full":     {CPU: 2, MemoryBytes: 4 << 30, DiskBytes: 20 << 30},
		"nosuch":   {CPU: 1, MemoryBytes: 2 << 30, DiskBytes: 10 << 30},
	} {
		if got := template.Limits(profile); got != want {
			t.Errorf("%s: %+v", profile, got)
		}
	}
	r := at(t, "[templates.small]\nsandbox_profile_type = \"lite\"\ndisk = \"loop\"\n").registry(t)
	if got := lookup(t, r, "small"); got.Profile != "lite" || got.Limits("full").MemoryBytes != 4<<30 || !got.Limits("full").DiskHard {
		t.Errorf("%+v", got)
	}
}

func TestTemplatesExtendOthers(t *testing.T) {
	r := at(t, `
[templates.child]
extends = "parent"
egress = []
disk = "5GiB"
sync = true
[templates.child.env]
A = "child"
[templates.child.timers]
auto_stop = "off"

[templates.parent]
extends = "default"
description = "Parent"
egress = "all"
disk = "2GiB loop"
profile = "lite"
sync = false
mounts = [{source = "/usr", target = "/opt/usr"}]
[templates.parent.env]
A = "parent"
B = "parent"
[templates.parent.timers]
auto_stop = "1h"
max_age = "2h"

[templates.default]
extends = "default"
user = "root"

[templates.none]
user = "root"
`).registry(t)
	got := lookup(t, r, "child")
	no := true
	if diff := cmp.Diff(template.Template{
		Name: "child", Extends: "parent", Description: "Parent", Tenants: []string{"default"}, Driver: "local", Base: "host", User: "root", Runtime: "demo",
		Profile: "lite", Egress: template.Egress{}, Disk: template.Disk{Bytes: 5 << 30, Kind: "loop"}, Sync: &no,
		Env:    map[string]string{"A": "child", "B": "parent"},
		Mounts: []template.Mount{{Source: "/usr", Target: "/opt/usr"}},
		Timers: template.Timers{AutoStop: template.After(0), MaxAge: template.After(2 * time.Hour)},
	}, got); diff != "" {
		t.Error(diff)
	}
	// Without extends, a section stands in the place of the built-in template.
	if got := lookup(t, r, "none"); got.User != "root" || got.Runtime != "" {
		t.Errorf("%+v", got)
	}
	// What one caller does to its copy, no other sees.
	got.Env["A"], got.Mounts[0].Target = "spoiled", "spoiled"
	if again := lookup(t, r, "child"); again.Env["A"] != "child" || again.Mounts[0].Target != "/opt/usr" {
		t.Errorf("%+v", again)
	}
}

func TestBadTemplatesAreRefusedWithWords(t *testing.T) {
	cases := []struct{ section, want string }{
		{`drivr = "fake"`, `templates.x.drivr (FILE:2) is not a key of templates; did you mean driver?`},
		{`auto_stop = "5m"`, `templates.x.auto_stop (FILE:2) is not a key of templates; remove it; the keys are`},
		{`driver = "nope"`, `templates.x.driver = "nope" (FILE:2) is no driver of this Berth; write one of: fake, local`},
		{`base = "nope"`, `templates.x.base = "nope" (FILE:2) is no base on this machine; make it with 'berth template build-base nope', or write one of: host, debian`},
		{`base = "hollow"`, `templates.x.base = "hollow" (FILE:2) is no base on this machine`},
		{`base = "../etc"`, `templates.x.base = "../etc" (FILE:2) is neither host, nor the name of a base, nor an absolute path`},
		{`base = "/nowhere"`, `templates.x.base = "/nowhere" (FILE:2) cannot be used: it does not exist`},
		{`base = "/etc/passwd"`, `templates.x.base = "/etc/passwd" (FILE:2) cannot be used: it is not a directory`},
		{`base = "DATA/tools"`, `templates.x.base = "DATA/tools" (FILE:2) cannot be used: it holds no bin/sh`},
		{`base = "/"`, `templates.x.base = "/" (FILE:2) is the whole host`},
		{`user = "joe"`, `templates.x.user = "joe" (FILE:2) is no user of sandboxes; write one of: agent, root`},
		{`profile = "huge"`, `templates.x.profile = "huge" (FILE:2) is no profile; write one of: lite, standard, full`},
		{`profile = "lite"` + "\n" + `sandbox_profile_type = "full"`, `templates.x.sandbox_profile_type = "full" (FILE:3) differs from profile`},
		{`sandbox_profile_type = "huge"`, `templates.x.sandbox_profile_type = "huge" (FILE:2) is no profile`},
		{`cpu = -1`, `templates.x.cpu = "-1" (FILE:2) is negative`},
		{`cpu = 0.001`, `templates.x.cpu = "0.001" (FILE:2) is less than a hundredth of a core`},
		{`cpu = "two"`, `templates.x.cpu (FILE:2) has a type that does not fit; write a number`},
		{`memory = "512MB"`, `templates.x.memory (FILE:2) is not a size; write a number of bytes`},
		{`memory = 1024`, `templates.x.memory = "1KiB" (FILE:2) is too small`},
		{`memory = 1.5`, `templates.x.memory (FILE:2) has a type that does not fit; write a size`},
		{`disk = "lots"`, `templates.x.disk (FILE:2) has a word that is neither a size nor auto, soft or loop`},
		{`disk = ""`, `templates.x.disk (FILE:2) is not a disk limit`},
		{`disk = "1MiB loop"`, `templates.x.disk = "1MiB" (FILE:2) is too small`},
		{`processes = -5`, `templates.x.processes = "-5" (FILE:2) is negative`},
		{`model = "-x"`, `templates.x.model = "-x" (FILE:2) cannot be used: a model has a name of at most 200 printable characters`},
		{`models = ["opus", ""]`, `templates.x.models[2] (FILE:2) is empty; write names such as`},
		{`models = ["a\nb"]`, `templates.x.models[1] = `},
		{`models = "opus"`, `templates.x.models (FILE:2) has a type that does not fit`},
		{`turns = -1`, `templates.x.turns = "-1" (FILE:2) is negative`},
		{`unreachable = "shrug"`, `templates.x.unreachable = "shrug" (FILE:2) is not one of the choices; write one of: wait, replace, fence`},
		{`timers.auto_stop = "soon"`, `templates.x.timers.auto_stop (FILE:2) is not a duration`},
		{`timers.auto_stop = 0`, `templates.x.timers.auto_stop (FILE:2) is zero`},
		{`timers.auto_stop = "9s"`, `templates.x.timers.auto_stop (FILE:2) is shorter than 10s`},
		{`timers.auto_stop = true`, `templates.x.timers.auto_stop (FILE:2) has a type that does not fit; write a duration`},
		{`egress = "some"`, `templates.x.egress (FILE:2) is no list of rules`},
		{`egress = [1]`, `templates.x.egress (FILE:2) is no list of rules`},
		{`egress = ["example.com:443", "https://example.com"]`, `templates.x.egress[2] = "https://example.com" (FILE:2) is no rule: `},
		{`prompt_file = "/etc/hostname"`, `templates.x.prompt_file = "/etc/hostname" (FILE:1) is only for the runtime sandbox-agent`},
		{`prompt_file = "prompt.md"`, `prompt.md is no absolute path; write the absolute path`},
		{`agent_command = 7`, `templates.x.agent_command (FILE:2) is no command`},
		{`env = {"1A" = "secret-value"}`, `templates.x.env (FILE:2) cannot be used: the name that begins with "1"`},
		{`env = {"A=secret-value" = ""}`, `templates.x.env (FILE:2) cannot be used: the name that begins with "A="`},
		{`env = {A = 1}`, `templates.x.env (FILE:2) has a type that does not fit`},
		{`mounts = [{source = "tools", target = "/opt"}]`, `templates.x.mounts[1].source = "tools" (FILE:2) is relative`},
		{`mounts = [{target = "/opt"}]`, `templates.x.mounts[1].source (FILE:2) is missing`},
		{`mounts = [{source = "/usr"}]`, `templates.x.mounts[1].target (FILE:2) is missing`},
		{`mounts = [{source = "/usr", target = "opt"}]`, `templates.x.mounts[1].target = "opt" (FILE:2) is relative`},
		{`mounts = [{source = "/nowhere", target = "/opt"}]`, `templates.x.mounts[1].source = "/nowhere" (FILE:2) does not exist`},
		{`mounts = [{source = "/etc/passwd", target = "/opt"}]`, `templates.x.mounts[1].source = "/etc/passwd" (FILE:2) is not a directory`},
		{`mounts = [{source = "/etc/passwd/x", target = "/opt"}]`, `templates.x.mounts[1].source = "/etc/passwd/x" (FILE:2) cannot be looked at`},
		{`mounts = [{source = "/", target = "/opt"}]`, `is the whole host`},
		{`mounts = [{source = "/usr/..", target = "/opt"}]`, `is the whole host`},
		{`mounts = [{source = "/proc/self", target = "/opt"}]`, `is the host's kernel and devices`},
		{`mounts = [{source = "DATA", target = "/opt"}]`, `holds the server's data directory`},
		{`mounts = [{source = "DATA/..", target = "/opt"}]`, `holds the server's data directory`},
		{`mounts = [{source = "DATA/local", target = "/opt"}]`, `lies in the server's data directory`},
		{`mounts = [{source = "/usr", target = "/"}]`, `templates.x.mounts[1].target = "/" (FILE:2) would hide a part of the base`},
		{`mounts = [{source = "/usr", target = "/usr/"}]`, `would hide a part of the base`},
		{`mounts = [{source = "/usr", target = "/workspace"}]`, `lies over /workspace, which is the sandbox's own`},
		{`mounts = [{source = "/usr", target = "/workspace/tools"}]`, `lies over /workspace`},
		{`mounts = [{source = "/usr", target = "/opt/../proc/1"}]`, `lies over /proc`},
		{`mounts = [{source = "/usr", target = "/home"}]`, `would hide a part of the base`},
		{`mounts = [{source = "/usr", target = "/opt"}, {source = "/usr", target = "/opt/x"}]`, `templates.x.mounts[2].target = "/opt/x" (FILE:2) overlaps the mount at /opt`},
		{`mounts = [{sorce = "/usr", target = "/opt"}]`, `templates.x.mounts[1].sorce (FILE:2) is not a key of templates; did you mean source?`},
		{`services = {"8788" = "http://127.0.0.1:4000"}`, `templates.x.services."8788" (FILE:2) is no service: a service listens on 127.0.0.1:port`},
		{`services = {"0.0.0.0:8788" = "http://127.0.0.1:4000"}`, `a service listens on 127.0.0.1:port`},
		{`services = {"127.0.0.1:0" = "http://127.0.0.1:4000"}`, `a service listens on 127.0.0.1:port, with a port from 1 to 65535`},
		{`services = {"127.0.0.1:3128" = "http://127.0.0.1:4000"}`, `port 3128 is the proxy's`},
		{`services = {"localhost:80" = "http://b"}`, `a service listens on 127.0.0.1:port`},
		{`services = {"127.0.0.1:80" = "ftp://a:1"}`, `its upstream`},
		{`services = {"127.0.0.1:80" = "http://"}`, `its upstream`},
		{`services = {"127.0.0.1:80" = "http://u:secret-value@a"}`, `has a user in it`},
		{`services = {"127.0.0.1:80" = "http://a/?x=1"}`, `has a query or a fragment`},
		{`services = {"127.0.0.1:80" = "http://%zz"}`, `its upstream is not a URL`},
		{`services = {"127.0.0.1:80" = 5}`, `templates.x.services."127.0.0.1:80" (FILE:2) is neither a URL nor a table`},
		{`services = {"127.0.0.1:80" = {url = "http://a", header = {}}}`, `has a key "header" that services do not have`},
		{`services = {"127.0.0.1:80" = {url = "http://a", headers = ["a"]}}`, `has a type in headers that does not fit`},
		{`services = {"127.0.0.1:80" = {headers = {a = "b"}}}`, `its upstream names no host`},
		{`services = {"127.0.0.1:80" = {url = "tcp://a:1", headers = {a = "b"}}}`, `has headers, which connections of tcp do not have`},
		{`services = {"127.0.0.1:80" = {url = "http://a", headers = {host = "secret-value"}}}`, `the header host belongs to the connection`},
		{`services = {"127.0.0.1:80" = {url = "http://a", headers = {"a b" = "secret-value"}}}`, `is no name of a header`},
		{`services = {"127.0.0.1:80" = {url = "http://a", headers = {a = " "}}}`, `has no value`},
		{`services = {"127.0.0.1:80" = {url = "http://a", headers = {a = "$BERTH_SECRET_KEY"}}}`, `is a setting of the server`},
		{`services = {"127.0.0.1:80" = {url = "http://a", headers = {a = "secret-value $1"}}}`, `has a "$" that is followed by no name of a variable`},
		{`cpu = nan`, `templates.x (FILE:1) cannot be used: NaN is no number of cores`},
		{`mounts = [` + strings.Join(many(17, `{source = "/usr", target = "/opt/%d"}`), ", ") + `]`, `templates.x (FILE:1) cannot be used: 17 mounts are more than 16; write less of it`},
		{`egress = [` + strings.Join(many(257, `"a%d.test:1"`), ", ") + `]`, `257 egress entries are more than 256`},
		{`extends = "nope"`, `templates.x.extends = "nope" (FILE:2) is no template; write one of: claude_code, codex, copilot, cursor, default, demo, gemini, github, goose, none, opencode, qwen, sandbox_agent, x`},
		{`extends = "x"`, `templates.x.extends = "x" (FILE:2) leads back to this template`},
	}
	for _, c := range cases {
		p := at(t, "[templates.x]\n"+c.section+"\n")
		r, report := p.load(t)
		want := strings.NewReplacer("FILE", "file "+p.file, "DATA", p.data).Replace(c.want)
		said := fmt.Sprint(report.Err())
		if len(report.Problems) != 1 || !strings.Contains(said, want) {
			t.Errorf("%s: want %s, got\n%s", c.section, want, said)
		}
		if strings.Contains(said, "secret-value") {
			t.Errorf("%s: tells a value:\n%s", c.section, said)
		}
		if slices.Contains(r.Names(), "x") {
			t.Errorf("%s: the template is there", c.section)
		}
	}
}

// A template that has mounts can name an installed program among them.
func TestInstalledProgramCanBeMounted(t *testing.T) {
	p := at(t, "[templates.x]\nextends = \"claude_code\"\nmounts = [{source = \"DATA/programs/claude_code\", target = \"/opt/claude\"}, {source = \"/usr/share\", target = \"/opt/share\"}]\n")
	if err := program.Prepare(p.data); err != nil {
		t.Fatal(err)
	}
	if r, report := p.load(t); report.Err() != nil || len(lookup(t, r, "x").Mounts) != 2 {
		t.Errorf("%v", report.Err())
	}
}

func many(n int, form string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(form, i))
	}
	return all
}

func TestEveryProblemIsToldOnce(t *testing.T) {
	p := at(t, `
[templates.child]
extends = "parent"
[templates.parent]
driver = "nope"
user = "joe"
[templates.a]
extends = "b"
[templates.b]
extends = "a"
`)
	_, report := p.load(t, "BERTH_DEFAULT_TEMPLATE", "child", "BERTH_DEFAULT_DRIVER", "bad")
	var keys []string
	for _, problem := range report.Problems {
		keys = append(keys, problem.Key)
	}
	if got := strings.Join(keys, " "); got != "default_driver templates.b.extends templates.parent.driver templates.parent.user" {
		t.Errorf("problems of %s:\n%v", got, report.Err())
	}
	_, report = p.load(t, "BERTH_DEFAULT_TEMPLATE", "nope")
	if said := fmt.Sprint(report.Err()); !strings.Contains(said, `default_template = "nope" (env BERTH_DEFAULT_TEMPLATE) is no template of this Berth; write one of: a, b, child, claude_code, codex, copilot, cursor, default, demo, gemini, github, goose, none, opencode, parent, qwen, sandbox_agent`) {
		t.Error(said)
	}
}

// The file with an agent's instructions must be one that can be read, and only sandbox-agent reads it.
func TestPromptFile(t *testing.T) {
	testkit.Proves(t, "T8")
	dir := t.TempDir()
	good, large, binary := filepath.Join(dir, "good.md"), filepath.Join(dir, "large.md"), filepath.Join(dir, "binary.md")
	for name, text := range map[string]string{good: "Be kind.", large: strings.Repeat("x", 65<<10), binary: "\xff\xfe"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := template.ReadPrompt(good); err != nil || text != "Be kind." {
		t.Errorf("%q, %v", text, err)
	}
	for _, path := range []string{large, binary, dir, filepath.Join(dir, "none.md"), "good.md"} {
		if _, err := template.ReadPrompt(path); fault.CodeOf(err) != api.CodeInvalidConfig {
			t.Errorf("%s: %v", path, err)
		}
	}
}
