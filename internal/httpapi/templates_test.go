package httpapi

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
)

// withTemplates is a site with a template that has something of everything.
func withTemplates(t *testing.T) *site {
	t.Helper()
	registry := template.New(template.Options{Driver: "fake", Default: "web"})
	err := registry.Add(template.Template{
		Name: "web", Extends: "default", Tenants: []string{"acme", "default"}, User: "root", Profile: "lite", Disk: template.Disk{Kind: template.DiskLoop},
		Env:      map[string]string{"TOKEN": "canary-of-a-template", "A": "canary-of-a-template"},
		Mounts:   []template.Mount{{Source: "/usr/share", Target: "/opt/share"}},
		Egress:   template.Egress{"example.com:443"},
		Services: map[string]template.Service{"127.0.0.1:8788": {URL: "http://127.0.0.1:4000", Headers: map[string]string{"x-api-key": "canary-of-a-template"}}},
		Timers:   template.Timers{AutoStop: template.After(time.Hour), AutoDelete: template.After(0)},
		Hooks:    []template.Hook{{Name: "tell", Phase: "message", URL: "https://hooks.example.com/canary", Secret: "whsec_canary" + strings.Repeat("0", 26)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return newSite(t, func(o *Options) { o.Templates = registry })
}

func TestTemplatesAreShownWithoutSecrets(t *testing.T) {
	testkit.Proves(t, "H6", "E5")
	s := withTemplates(t)
	a := s.do(call{path: templatesPath + "/web", key: s.read}).is(http.StatusOK)
	if strings.Contains(string(a.body), "canary") {
		t.Errorf("shows a value: %s", a.body)
	}
	want := api.Template{
		Name: "web", Extends: "default", Description: "A sandbox on this machine with the host's programs", Default: true,
		Driver: "fake", Base: "host", User: "root", Profile: "lite", Runtime: "demo", Env: []string{"A", "TOKEN"},
		Resources: api.TemplateResources{CPU: 0.5, MemoryBytes: 512 << 20, DiskBytes: 2 << 30, Disk: "loop"},
		Mounts:    []api.TemplateMount{{Target: "/opt/share"}},
		Egress:    []string{"example.com:443"},
		Services:  []api.TemplateService{{Headers: []string{"x-api-key"}, Listen: "127.0.0.1:8788"}},
		Timers:    map[string]string{"auto_stop": "1h", "auto_delete": "off"},
		Hooks: []api.TemplateHook{
			{Name: "pull", Phase: "cold_start", Kind: "builtin"}, {Name: "store", Phase: "message", Kind: "builtin"}, {Name: "tally", Phase: "stream_finish", Kind: "builtin"},
			{Name: "push", Phase: "stream_finish", Kind: "builtin"}, {Name: "log", Phase: "terminate", Kind: "builtin"},
			{Name: "tell", Phase: "message", Kind: "webhook"},
		},
	}
	if diff := cmp.Diff(want, into[api.Template](a)); diff != "" {
		t.Error(diff)
	}
	// Where things are on the server is for those who run it.
	want.Mounts[0].Source, want.Services[0].Upstream = "/usr/share", "http://127.0.0.1:4000"
	want.Tenants = []string{"acme", "default"}
	owner := s.newKey(auth.DefaultTenant, api.ScopeAdmin)
	if diff := cmp.Diff(want, into[api.Template](s.do(call{path: templatesPath + "/web", key: owner}).is(http.StatusOK))); diff != "" {
		t.Error(diff)
	}
	for _, key := range []string{s.admin, s.newKey(auth.DefaultTenant, api.ScopeWrite)} {
		if got := into[api.Template](s.do(call{path: templatesPath + "/web", key: key}).is(http.StatusOK)); got.Mounts[0].Source != "" || got.Services[0].Upstream != "" {
			t.Errorf("%+v", got)
		}
	}
}

func TestTemplatesAreListedInPages(t *testing.T) {
	s := withTemplates(t)
	var names []string
	for cursor := ""; ; {
		page := into[api.List[api.Template]](s.do(call{path: templatesPath + "?limit=2&cursor=" + cursor, key: s.read}).is(http.StatusOK))
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "claude_code codex copilot cursor default demo gemini github goose none opencode qwen sandbox_agent web" {
		t.Errorf("listed %s", got)
	}
	s.do(call{path: templatesPath + "?cursor=nonsense", key: s.read}).fails(api.CodeInvalidCursor)
	s.do(call{path: templatesPath}).fails(api.CodeUnauthenticated)
}

func TestUnknownTemplateIsNotFound(t *testing.T) {
	s := withTemplates(t)
	s.do(call{path: templatesPath + "/nosuch", key: s.read}).fails(api.CodeNotFound)
}

// The path of an image directory says how the server is laid out.
func TestBaseDirectoryIsForThoseWhoRunTheServer(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin", "sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	registry := template.New(template.Options{Driver: "fake"})
	if err := registry.Add(template.Template{Name: "image", Tenants: []string{"acme"}, Base: dir}); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(o *Options) { o.Templates = registry })
	for key, want := range map[string]string{s.admin: "directory", s.newKey(auth.DefaultTenant, api.ScopeAdmin): dir} {
		if got := into[api.Template](s.do(call{path: templatesPath + "/image", key: key}).is(http.StatusOK)); got.Base != want {
			t.Errorf("base %q, want %q", got.Base, want)
		}
	}
}
