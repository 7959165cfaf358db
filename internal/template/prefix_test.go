package template_test

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
)

func withPrefix(t *testing.T, pattern string, empty bool) *template.Registry {
	t.Helper()
	r := template.New(template.Options{})
	init := !empty
	if err := r.Add(template.Template{Name: "t", S3KeyPrefix: pattern, InitFromS3: &init}); err != nil {
		t.Fatal(err)
	}
	return r
}

func of(tenant, owner, id string) sandbox.Sandbox {
	return sandbox.Sandbox{ID: id, Owner: sandbox.Owner{Tenant: tenant, Kind: sandbox.OwnerProject, ID: owner}, Spec: sandbox.Spec{Template: "t"}}
}

func TestPrefixOfVersions(t *testing.T) {
	testkit.Proves(t, "S7", "S6")
	for _, c := range []struct {
		pattern string
		empty   bool
		want    string
		shared  bool
	}{
		{"", false, "docs/acme/0-1/", false},
		{"docs/{account}", false, "docs/acme/", true},
		{"docs/{account}/", true, "docs/acme/0-1/", false},
		{"a/{tenant}/{owner}/{agent}", true, "a/acme/project-x=2fy=2e=2e/t/", false},
	} {
		got := withPrefix(t, c.pattern, c.empty).Workspace(of("acme", "x/y..", "0-1"))
		if got.Prefix != c.want || got.Shared != c.shared || got.Empty != c.empty || got.Off {
			t.Errorf("%q: %+v", c.pattern, got)
		}
	}
	no := false
	r := template.New(template.Options{})
	if err := r.Add(template.Template{Name: "t", Sync: &no}); err != nil || !r.Workspace(of("a", "b", "c")).Off {
		t.Errorf("%v", err)
	}
}

// Whatever owners are called, each has a prefix of its own, and one that a store takes.
func TestPrefixesNeverMeet(t *testing.T) {
	r := withPrefix(t, "w/{tenant}/{owner}/", false)
	seen := map[string]string{}
	for _, owner := range []string{"a", "a/b", "a=2fb", "a b", "A", "..", ".", "HEAD", "é", "\xff", strings.Repeat("x", 255), strings.Repeat("x", 254) + "y", strings.Repeat("/", 255)} {
		w := r.Workspace(of("acme", owner, "id"))
		if other, ok := seen[w.Prefix]; ok {
			t.Errorf("%q and %q are both in %s", owner, other, w.Prefix)
		}
		seen[w.Prefix] = owner
		if err := blob.CheckKey(w.Prefix + "HEAD"); err != nil || strings.Count(w.Prefix, "/") != 3 {
			t.Errorf("%q: %s, %v", owner, w.Prefix, err)
		}
	}
	if a, b := r.Workspace(of("packs", "a", "")).Prefix, r.Workspace(of("acme", "a", "")).Prefix; !strings.HasPrefix(a, "w/=70acks/") || a == b {
		t.Errorf("%s, %s", a, b)
	}
}

// A pattern with which two tenants could meet is refused, and so is one that is none.
func TestPrefixThatMixesTenantsIsRefused(t *testing.T) {
	testkit.Proves(t, "S7")
	for pattern, why := range map[string]string{
		"docs/":                                 "does not keep tenants apart",
		"docs/{sandbox}/":                       "does not keep tenants apart",
		"docs/{owner}/{tenant}/":                "does not keep tenants apart",
		"docs/x{tenant}/":                       "does not keep tenants apart",
		"docs/{tenant}{owner}/":                 "does not keep tenants apart",
		"docs/{user}/":                          "unknown placeholder {user}",
		"docs/{tenant}/{owner}-{agent}/":        `part "{owner}-{agent}"`,
		"docs/{tenant}/../":                     `part ".."`,
		"docs//{tenant}/":                       `part ""`,
		"docs/{tenant}/packs/{owner}/":          `part "packs"`,
		"docs/{tenant}/a b/":                    `part "a b"`,
		"docs/{tenant}/{":                       `part "{"`,
		"/docs/{tenant}/":                       `part ""`,
		"docs/more/{tenant}/":                   "begins like that of the template",
		"{tenant}/":                             "begins like that of the template",
		strings.Repeat("x", 200) + "/{tenant}/": "too long",
	} {
		err := template.New(template.Options{}).Add(template.Template{Name: "t", S3KeyPrefix: pattern})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// A new sandbox's prefix names its account and its agent. One that is recorded stays, whatever the template
// says since, and one from before has the tenant and the template in their places.
func TestPrefixIsFixedAtBirth(t *testing.T) {
	testkit.Proves(t, "S7")
	r := withPrefix(t, "docs/{account}/{agent}/{sandbox}", false)
	s := of("acme", "p", "id")
	s.Account, s.Agent = "ann", "reviewer"
	if got := r.Workspace(s).Prefix; got != "docs/acme/t/id/" {
		t.Errorf("one from before is in %s", got)
	}
	s.Prefix = r.Prefix(s)
	if s.Prefix != "docs/ann/reviewer/id/" {
		t.Errorf("a new one is in %s", s.Prefix)
	}
	for _, pattern := range []string{"docs/{account}", "other/{tenant}/{owner}"} {
		if w := withPrefix(t, pattern, false).Workspace(s); w.Prefix != s.Prefix || w.Shared {
			t.Errorf("with %s it is in %+v", pattern, w)
		}
	}
	for prefix, shared := range map[string]bool{"docs/ann/": true, "docs/ann/id/": false, "docs/ann/project-p/": false, "docs/ann/idx/": true} {
		s.Prefix = prefix
		if w := r.Workspace(s); w.Shared != shared {
			t.Errorf("%s: %+v", prefix, w)
		}
	}
}
