package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// A template of one tenant does not exist for another, whichever way it is asked for.
func TestTemplatesOfOtherTenantsDoNotExist(t *testing.T) {
	testkit.Proves(t, "E2")
	t.Parallel()
	const canary = "canary-of-the-operators-template"
	config := func(tenants string) string {
		return "default_template = \"none\"\n[templates.office]\nextends = \"default\"\n" + tenants + "env = {TEMPLATE_SECRET = \"" + canary + "\"}\n"
	}
	env := local(t)
	p := start(t, withConfig(t, env, config("tenants = [\"default\", \"acme\"]\n")))
	key, err := p.client(t).Keys.Create(t.Context(), api.CreateKey{Tenant: "acme", Scope: api.ScopeAdmin})
	if err != nil {
		t.Fatal(err)
	}
	old, _, err := p.clientOf(t, key.Secret).Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "old", Template: "office"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	p = start(t, withConfig(t, env, config("")))
	acme := p.clientOf(t, key.Secret)
	if log := p.logs.String(); !strings.Contains(log, "may not use") || !strings.Contains(log, old.ID) || !strings.Contains(log, "template=office") {
		t.Errorf("no warning names %s:\n%s", old.ID, log)
	}
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key.Secret)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	// The same answer as for a name that there is not.
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/api/v1/templates/%s", ""},
		{"POST", "/api/v1/sandboxes", `{"name":"new","template":"%s"}`},
		{"POST", "/api/v1/projects/p/sandbox/ensure", `{"template":"%s"}`},
		{"POST", "/api/v1/agents", `{"name":"spy","template":"%s"}`},
		{"POST", "/api/v1/conversations", `{"template":"%s"}`},
		{"POST", "/api/v1/sandboxes", `{"name":"old","template":"%s","profile":"lite"}`},
	} {
		fill := func(name string) (int, string) {
			path, body := c.path, c.body
			if strings.Contains(path, "%s") {
				path = fmt.Sprintf(path, name)
			} else {
				body = fmt.Sprintf(body, name)
			}
			status, text := ask(c.method, path, body)
			var problem map[string]any
			_ = json.Unmarshal([]byte(text), &problem)
			delete(problem, "request_id")
			text = fmt.Sprint(problem)
			return status, strings.ReplaceAll(text, name, "NAME")
		}
		status, text := fill("office")
		wantStatus, want := fill("nosuch")
		own := strings.Contains(c.body, `"old"`) // its own sandbox tells its own template
		if !own && (status != wantStatus || text != want || status < 400) || strings.Contains(text, canary) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, status, text, wantStatus, want)
		}
	}
	if status, text := ask("GET", "/api/v1/templates", ""); status != http.StatusOK || strings.Contains(text, "office") || !strings.Contains(text, "claude_code") {
		t.Errorf("listed %s", text)
	}
	for _, key := range []string{"mounts", "services", "s3_key_prefix", "hooks", "egress", "base", "tenants", "extends"} {
		if status, text := ask("POST", "/api/v1/agents", `{"name":"spy","template":"default","overrides":{"`+key+`":[]}}`); status != http.StatusBadRequest || !strings.Contains(text, "cannot change") {
			t.Errorf("an agent that overrides %s: %d %s", key, status, text)
		}
	}
	// What was made of it before keeps working, by its name too.
	res, err := acme.Sandboxes.Exec(t.Context(), "old", api.Exec{Command: api.Shell("echo $TEMPLATE_SECRET"), TimeoutSeconds: 60})
	if err != nil || res.Stdout != canary+"\n" {
		t.Errorf("%+v, %v", res, err)
	}
	if again, made, err := acme.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "old", Template: "office"}); err != nil || made || again.ID != old.ID {
		t.Errorf("%+v, %v, %v", again, made, err)
	}
	if _, err := acme.Sandboxes.Restart(t.Context(), "old"); err != nil {
		t.Error(err)
	}
	if err := acme.Sandboxes.Delete(t.Context(), "old"); err != nil {
		t.Error(err)
	}
	// The default tenant has it.
	if _, _, err := p.client(t).Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "mine", Template: "office"}); err != nil {
		t.Error(err)
	}
}
