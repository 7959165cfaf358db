package template_test

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/template"
)

// The server's own variables reach the default tenant, and others only where a template names them.
func TestServerVariablesArePassedByName(t *testing.T) {
	r := template.New(template.Options{LookupEnv: func(name string) (string, bool) {
		return map[string]string{"ANTHROPIC_API_KEY": "sk-server", "OTHER": "secret"}[name], true
	}})
	mine := template.Template{Name: "mine", Extends: "claude_code", Tenants: []string{"acme"}, Env: map[string]string{"A": "1"}}
	own := template.Template{Name: "own", Extends: "claude_code", Env: map[string]string{"ANTHROPIC_API_KEY": "sk-template"}}
	for _, t2 := range []template.Template{mine, own} {
		if err := r.Add(t2); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ tenant, template, want string }{
		{"default", "claude_code", "sk-server"},
		{"acme", "claude_code", ""},
		{"acme", "mine", "sk-server"},
		{"default", "own", "sk-template"},
		{"default", "demo", ""},
	} {
		env := r.Env(c.tenant, c.template)
		if env["ANTHROPIC_API_KEY"] != c.want || env["OTHER"] != "" {
			t.Errorf("%s, template %s: got %q, want the key %q", c.tenant, c.template, env, c.want)
		}
	}
	if all := strings.Join(r.Secrets(), " "); !strings.Contains(all, "sk-server") || strings.Contains(all, "secret") {
		t.Errorf("secrets that logs leave out: %s", all)
	}
	for _, name := range []string{"BERTH_SECRET_KEY", "A=B", ""} {
		if err := r.Add(template.Template{Name: "bad", EnvFrom: []string{name}}); err == nil || !strings.Contains(err.Error(), "env_from[1]") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
