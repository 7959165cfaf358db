package workspacesync_test

import (
	"os"
	"testing"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// A server that is killed right after it saved a version, before it could record that, leaves a record of the
// version before. The next save knows its own version again: nothing is kept twice, and nothing comes back
// that was deleted since.
func TestOwnVersionIsKnownAgain(t *testing.T) {
	testkit.Proves(t, "S15")
	for _, how := range []string{"save", "start"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			sb := w.restore(w.born(sandbox.Sandbox{}))
			w.write(sb, "kept", "one")
			w.write(sb, "gone", "one")
			before := w.save(sb)
			w.write(sb, "kept", "two")
			w.write(sb, "gone", "two")
			w.save(before) // and the record of it is lost
			w.write(sb, "kept", "three")
			if err := os.Remove(w.path(sb, "gone")); err != nil {
				t.Fatal(err)
			}
			after := before
			if how == "start" {
				w.Opts().Stale = 0
				after = w.restore(after)
			}
			after = w.save(after)
			w.says(after, "kept", "three")
			entries, err := os.ReadDir(w.path(sb, ""))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if name := e.Name(); name != "kept" && name[0] != '.' {
					t.Errorf("there is %q in the workspace", name)
				}
			}
		})
	}
}
