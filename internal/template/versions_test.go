package template_test

import (
	"testing"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
)

// A template's policy and layout of versions are its sandboxes'; a policy replaces the server's as a whole.
func TestPolicyAndLayoutOfVersions(t *testing.T) {
	testkit.Proves(t, "S17")
	r := template.New(template.Options{KeepLast: 10, KeepDaily: 3})
	five, none, many := 5, 0, -1
	for _, tp := range []template.Template{
		{Name: "five", KeepLast: &five, Layout: "plain"}, {Name: "none", KeepLast: &none}, {Name: "child", Extends: "five", KeepDaily: &five},
	} {
		if err := r.Add(tp); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][3]any{
		"default": {10, 3, ""}, "five": {5, 0, "plain"}, "none": {0, 0, ""}, "child": {5, 5, "plain"},
	} {
		w := r.Workspace(sandbox.Sandbox{ID: "s", Spec: sandbox.Spec{Template: name}})
		if got := [3]any{w.KeepLast, w.KeepDaily, w.Layout}; got != want {
			t.Errorf("%s: %v, not %v", name, got, want)
		}
	}
	for _, bad := range []template.Template{{Name: "x", KeepLast: &many}, {Name: "x", KeepDaily: &many}, {Name: "x", Layout: "flat"}} {
		if err := r.Add(bad); err == nil {
			t.Errorf("took %+v", bad)
		}
	}
}
