package app_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// Files without a name, without content, or without blocks do not get past the disk limit: not on the machine, and
// not in the object store. The sandbox says that its disk is full, and can be emptied.
func TestDiskLimitHolds(t *testing.T) {
	testkit.Proves(t, "E3", "S12")
	t.Parallel()
	a := newArena(t, "\n[templates.small]\nextends = \"default\"\ndisk = \"48MiB\"\n")
	box := a.box("box", "small")
	tell := func(script string) string {
		t.Helper()
		res, err := a.Sandboxes.Exec(t.Context(), "box", api.Exec{Command: api.Shell(script)})
		if err != nil {
			t.Fatal(err)
		}
		return res.Stdout + res.Stderr
	}
	if out := tell("exec 8>a 9>b; rm a b; head -c 40m /dev/zero >&8; head -c 40m /dev/zero >&9"); !strings.Contains(out, "No space left") {
		t.Errorf("80 MiB without a name: %q", out)
	}
	if out := tell("mkdir d; cd d; seq 1 20000 | xargs touch"); !strings.Contains(out, "No space left") {
		t.Errorf("20,000 files: %q", out)
	}
	if size := treeSize(t, a.instanceDir(box.ID)); size > 128<<20 {
		t.Errorf("the sandbox's files have %d bytes on the machine", size)
	}
	testkit.Eventually(t, patience, func() error {
		why, err := a.Sandboxes.Explain(t.Context(), "box")
		if all := strings.Join(why.Instance, "\n"); err == nil && (!strings.Contains(all, "problem: its disk is full") || !strings.Contains(all, "disk: hard limit of 48 MiB")) {
			err = fmt.Errorf("the explanation has %q", all)
		}
		return err
	})
	// Holes stay holes in versions.
	tell("rm -r d")
	if _, err := a.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); err != nil {
		t.Fatal(err)
	}
	tell("for i in 1 2 3; do truncate -s 45M hole$i; echo $i >>hole$i; done")
	before := treeSize(t, filepath.Join(a.data, "objects"))
	for i := range 3 {
		tell(fmt.Sprintf("echo %d >>hole1", i))
		if _, err := a.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); err != nil {
			t.Fatal(err)
		}
	}
	if grown := treeSize(t, filepath.Join(a.data, "objects")) - before; grown > 2<<20 {
		t.Errorf("three saves of a few bytes take %d bytes in the store", grown)
	}
	a.works("box", 1)
}
