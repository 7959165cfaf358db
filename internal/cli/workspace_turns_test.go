package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// TestWorkspacePushesOfOneDirectoryTakeTurns: a push that waits for the directory finds it as the push before
// left it: no push is refused, and no file is missing.
func TestWorkspacePushesOfOneDirectoryTakeTurns(t *testing.T) {
	testkit.Proves(t, "S11")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"first": "0"})
	d.does("push", here)
	rounds, want := testkit.Size(t, "dirlock.rounds"), map[string]string{"first": "0"}
	var wg sync.WaitGroup
	for who := range 4 {
		for round := range rounds {
			want[fmt.Sprintf("f-%d-%d", who, round)] = "x"
		}
		wg.Go(func() {
			for round := range rounds {
				if err := os.WriteFile(filepath.Join(here, fmt.Sprintf("f-%d-%d", who, round)), []byte("x"), 0o600); err != nil {
					t.Error(err)
				}
				if r := d.berth("workspace", "push", "--wait", "-q", here); r.code != 0 {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	wg.Wait()
	if left := d.does("diff", here); left != "nothing differs\n" {
		t.Errorf("not saved: %s", left)
	}
	d.does("restore", "--into", d.path("there"))
	d.has("there", want)
	contains(t, "verify", d.does("verify"), "whole: ")
	if text := d.does("versions", here); !strings.HasPrefix(strings.Split(text, "\n")[1], "*") {
		t.Errorf("the directory is not at the newest version:\n%s", text)
	}
}

// TestWorkspacePushOnAnOldBase: a directory that was last the same as an older version than the newest is
// not saved over it. It is refused, or brought together with it; so is one of which nothing is known.
func TestWorkspacePushOnAnOldBase(t *testing.T) {
	testkit.Proves(t, "S7", "S15")
	for name, forget := range map[string][]string{"an old base": nil, "no index": {".sandbox-state.idx"}, "no base": {".sandbox-state", ".sandbox-state.idx"}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			here := d.tree("here", map[string]string{"a": "0", "b": "0", "c": "0"})
			d.does("push", here)
			there := d.path("there")
			d.does("pull", there)
			fill(t, there, map[string]string{"a": "theirs", "new": "theirs"})
			theirs := d.synced("push", there).Version
			fill(t, here, map[string]string{"b": "mine"})
			for _, file := range forget {
				if err := os.Remove(filepath.Join(here, file)); err != nil {
					t.Fatal(err)
				}
			}
			d.refuses(api.CodeSyncConflict, nil, "push", here)
			if newest := strings.TrimSpace(d.does("versions", "-q", "--limit", "1")); newest != theirs {
				t.Errorf("the newest is %s, not %s", newest, theirs)
			}
			d.does("sync", here)
			look := d.path("look")
			d.does("restore", "--into", look)
			got, err := os.ReadFile(filepath.Join(look, "new"))
			if err != nil || string(got) != "theirs" {
				t.Errorf("what they made is %q, %v", got, err)
			}
			all := ""
			for _, file := range []string{"a", "b"} {
				copies, _ := filepath.Glob(filepath.Join(look, file+"*"))
				for _, path := range copies {
					text, _ := os.ReadFile(path)
					all += string(text) + " "
				}
			}
			if !strings.Contains(all, "theirs") || !strings.Contains(all, "mine") {
				t.Errorf("something is lost: %s", all)
			}
		})
	}
}
