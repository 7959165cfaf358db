package app_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/open"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// A template with the plain layout stores each version as a folder of plain objects with its state file, which any
// tool can read; old versions go by the template's policy, by themselves.
func TestPlainLayoutAndPolicyOfATemplate(t *testing.T) {
	testkit.Proves(t, "S1", "S7", "S17")
	t.Parallel()
	bucket := s3test.New(t)
	env := withConfig(t, onS3(local(t), bucket), "prune_interval = \"1s\"\n[templates.open]\nlayout = \"plain\"\nkeep_last = 2\ns3_key_prefix = \"docs/{tenant}/{sandbox}/\"\n")
	p := start(t, env)
	c := p.client(t)
	b := make1(t, c, api.CreateSandbox{Name: "box", Template: "open"})
	b.sh("mkdir src; echo one > src/f; echo same > g; ln -s g link; : > empty")
	var last api.Synced
	for i := range 4 {
		b.sh(fmt.Sprintf("echo %d > src/f", i))
		var err error
		if last, err = c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); err != nil || !last.New {
			t.Fatalf("%+v, %v", last, err)
		}
	}
	store, err := open.Store(t.Context(), bucket.URL("berth"))
	if err != nil {
		t.Fatal(err)
	}
	prefix := "docs/default/" + last.SandboxID + "/" + last.Version + "/"
	for name, want := range map[string]string{"src/f": "3\n", "g": "same\n", "empty": "", ".sandbox-state": `"version":"1.0"`} {
		o, err := store.Get(t.Context(), prefix+name, blob.GetOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := io.ReadAll(o.Body)
		if _ = o.Body.Close(); err != nil || !strings.Contains(strings.ReplaceAll(string(text), `": "`, `":"`), want) {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
	testkit.Eventually(t, time.Minute, func() error {
		if n := len(b.versions()); n != 2 {
			return fmt.Errorf("%d versions are left", n)
		}
		return nil
	})
	if _, err := c.Sandboxes.Terminate(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	b.says("cat src/f g; readlink link", "3\nsame\ng\n")
	if v, err := c.Sandboxes.Verify(t.Context(), "box"); err != nil || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
