package template_test

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/template"
)

func TestTemplatesAreForTheirTenants(t *testing.T) {
	r := at(t, `
[templates.own]
[templates.shared]
tenants = ["acme", "globex"]
[templates.all]
tenants = ["*"]
[templates.child]
extends = "all"
[templates.copy]
extends = "demo"
[templates.none]
extends = "none"
env = {SECRET = "x"}
`).registry(t)
	for tenant, want := range map[string]string{
		"default": "all child claude_code codex copilot copy cursor default demo gemini github goose none opencode own qwen sandbox_agent",
		"acme":    "all claude_code codex copilot cursor default demo gemini github goose opencode qwen sandbox_agent shared",
		"globex":  "all claude_code codex copilot cursor default demo gemini github goose opencode qwen sandbox_agent shared",
		"*":       "all claude_code codex copilot cursor default demo gemini github goose opencode qwen sandbox_agent",
		"":        "all claude_code codex copilot cursor default demo gemini github goose opencode qwen sandbox_agent",
	} {
		if got := strings.Join(r.NamesFor(tenant), " "); got != want {
			t.Errorf("%q has %s, want %s", tenant, got, want)
		}
	}
	if r.Allows("default", "nosuch") {
		t.Error("a template that there is not is allowed")
	}
	if err := r.Add(template.Template{Name: "go"}); err != nil || r.Allows("acme", "go") || !r.Allows("default", "go") {
		t.Errorf("a template of a program: %v", err)
	}
}

func TestTenantsThatAreNoneAreRefused(t *testing.T) {
	for given, want := range map[string]string{
		`[]`: "is empty", `["*", "acme"]`: "stands for all", `["Acme"]`: "is no name", `["a", "a"]`: "is there twice", `[""]`: "is no name", `"acme"`: "tenants",
	} {
		_, report := at(t, "[templates.web]\ntenants = "+given+"\n").load(t)
		if err := report.Err(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "templates.web.tenants") {
			t.Errorf("%s: %v", given, err)
		}
	}
}
