package template_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
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
		env, err := r.Env(t.Context(), c.tenant, c.template)
		if err != nil {
			t.Fatal(err)
		}
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

// A tenant's secret wins over the server's variable, and reaches sandboxes of templates that name it alone.
func TestSecretsAreGivenByName(t *testing.T) {
	testkit.Proves(t, "E7")
	server := map[string]string{"ANTHROPIC_API_KEY": "sk-server", "GITHUB_TOKEN": "of-the-server"}
	r := template.New(template.Options{LookupEnv: func(name string) (string, bool) { return server[name], server[name] != "" }})
	own := template.Template{Name: "own", Extends: "claude_code", Tenants: []string{"acme", "default"}, EnvFrom: []string{"ANTHROPIC_API_KEY", "GITHUB_TOKEN"}, Env: map[string]string{"GITHUB_TOKEN": "of-the-template"}}
	if err := r.Add(own); err != nil {
		t.Fatal(err)
	}
	secrets := map[string]map[string]string{"acme": {"ANTHROPIC_API_KEY": "sk-acme", "GITHUB_TOKEN": "of-acme", "OTHER": "other"}}
	r.UseSecrets(func(_ context.Context, tenant string, names []string) (map[string]string, error) {
		if tenant == "broken" {
			return nil, errors.New("cannot be read")
		}
		found := map[string]string{}
		for _, name := range names {
			if value, ok := secrets[tenant][name]; ok {
				found[name] = value
			}
		}
		return found, nil
	})
	for _, c := range []struct{ tenant, template, key, token string }{
		{"acme", "claude_code", "sk-acme", ""},
		{"acme", "own", "sk-acme", "of-the-template"},
		{"acme", "demo", "", ""},
		{"default", "claude_code", "sk-server", ""},
		{"other", "claude_code", "", ""},
	} {
		env, err := r.Env(t.Context(), c.tenant, c.template)
		if err != nil || env["ANTHROPIC_API_KEY"] != c.key || env["GITHUB_TOKEN"] != c.token || env["OTHER"] != "" {
			t.Errorf("%s, template %s: got %q, %v", c.tenant, c.template, env, err)
		}
	}
	if env, err := r.Env(t.Context(), "broken", "claude_code"); err == nil {
		t.Errorf("without the secrets the environment is %q, as if there were none", env)
	}
	if env, err := r.Env(t.Context(), "broken", "demo"); err != nil || len(env) > 0 {
		t.Errorf("a template that names no secret: %q, %v", env, err)
	}
	if got := r.Naming("acme", "GITHUB_TOKEN"); !slices.Equal(got, []string{"own"}) {
		t.Errorf("named by %q", got)
	}
	if got := r.Naming("other", "GITHUB_TOKEN"); len(got) > 0 {
		t.Errorf("another tenant sees the template %q", got)
	}
}
