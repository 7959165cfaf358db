package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// What other tools would run comes back as it was, is named, and is not run.
func TestWhatOtherToolsRunIsNamed(t *testing.T) {
	testkit.Proves(t, "S12")
	r, a, b := &workspace.Repo{Store: newMemory()}, t.TempDir(), t.TempDir()
	ran := filepath.Join(t.TempDir(), "ran")
	script := "#!/bin/sh\ntouch " + ran + "\n"
	want := []string{".claude/settings.local.json", ".envrc", "sub/.git/hooks/post-checkout"}
	write(t, a, map[string]string{want[0]: script, want[1]: script, want[2]: script, "plain.sh": script, "git/hooks/x": script, ".envrc.md": script})
	for _, path := range want {
		chmod(t, a, path, 0o755)
	}
	push(t, r, a, nil)
	res := pull(t, r, b, nil, workspace.PullOptions{})
	if !slices.Equal(res.Flagged, want) {
		t.Errorf("named %q", res.Flagged)
	}
	same(t, a, b)
	_, m, err := r.Version(t.Context(), "")
	must(t, err)
	var named []string
	for _, c := range workspace.Diff(nil, m).Changes {
		if c.Flagged {
			named = append(named, c.Path)
		}
	}
	if !slices.Equal(named, want) {
		t.Errorf("the difference names %q", named)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("something was run")
	}
	for path, want := range map[string]bool{".git/hooks/a/b": true, ".git/config": true, "x/.husky/pre-commit": true, ".git/hooksx": false, "envrc": false, "": false, ".git": false} {
		if workspace.RunsByItself(path) != want {
			t.Errorf("%q: %v", path, !want)
		}
	}
}
