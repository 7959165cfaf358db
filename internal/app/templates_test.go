package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// A template of the configuration is one that sandboxes have: by name, and by default.
func TestTemplatesOfTheConfiguration(t *testing.T) {
	testkit.Proves(t, "H6", "E5")
	t.Parallel()
	file := filepath.Join(t.TempDir(), "berth.toml")
	const canary = "canary-in-a-template-91c4"
	if err := os.WriteFile(file, []byte(`
[templates.web]
extends = "default"
profile = "lite"
image = "later"
env = {TOKEN = "`+canary+`"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(fresh(t), "BERTH_CONFIG="+file, "BERTH_DEFAULT_TEMPLATE=web")
	p := start(t, env)
	c := p.client(t)
	got, err := c.Templates.Get(t.Context(), "web")
	if err != nil || !got.Default || got.Driver != "fake" || got.Resources.CPU != 0.5 || strings.Join(got.Env, " ") != "TOKEN" {
		t.Errorf("%+v, %v", got, err)
	}
	var names []string
	for item, err := range c.Templates.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, item.Name)
	}
	if strings.Join(names, " ") != "claude_code codex copilot cursor default demo gemini github goose none opencode qwen sandbox_agent web" {
		t.Errorf("listed %v", names)
	}
	for want, spec := range map[string]api.CreateSandbox{"web lite": {Name: "a"}, "web full": {Name: "b", Profile: "full"}, "none standard": {Name: "c", Template: "none"}} {
		if s, _, err := c.Sandboxes.Create(t.Context(), spec); err != nil || s.Template+" "+s.Profile != want || s.Driver != "fake" {
			t.Errorf("%+v: %+v, %v", spec, s, err)
		}
	}
	_, _, err = c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: canary[:20], Template: "nosuch"})
	if pr := problem(err); pr.Code != api.CodeUnknownTemplate || !strings.Contains(pr.Detail, "claude_code, codex, copilot, cursor, default, demo, gemini, github, goose, none, opencode, qwen, sandbox_agent, web") {
		t.Errorf("%v", err)
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	if log := p.logs.String(); !strings.Contains(log, "templates.web.image") || !strings.Contains(log, "is kept, not used yet") {
		t.Errorf("no word of what is not used:\n%s", log)
	}
	if files := holding(t, value(env, "BERTH_DATA_DIR"), canary); len(files) > 0 || strings.Contains(p.logs.String(), canary) {
		t.Errorf("a template's secret is in the log or in %v", files)
	}
}
