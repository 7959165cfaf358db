package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// berth down stops everybody's sandboxes, through the server that has the data directory or by itself; the
// next use starts them again with their files.
func TestDownWithAndWithoutAServer(t *testing.T) {
	testkit.Proves(t, "X1")
	t.Parallel()
	env := local(t)
	p := start(t, env)
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
	make1(t, b.c, api.CreateSandbox{Name: "other"})
	down := func(want string) {
		t.Helper()
		cmd := exec.Command(testkit.Binary(t), "down")
		cmd.Env = append(append(os.Environ(), env...), "BERTH_SERVER="+p.url)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), want) {
			t.Fatalf("%s, %v", out, err)
		}
	}
	b.sh("echo kept > f")
	down("2 sandboxes stopped\n")
	if s, err := b.c.Sandboxes.Get(t.Context(), "box"); err != nil || s.State != "stopped" {
		t.Errorf("%+v, %v", s, err)
	}
	b.says("cat f", "kept\n")
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	down("1 sandbox stopped\n")
	down("0 sandboxes stopped\n")
	p = start(t, env)
	b.c = p.client(t)
	b.says("cat f", "kept\n")

	other, err := b.c.Keys.Create(t.Context(), api.CreateKey{Label: "first", Tenant: "acme", Scope: api.ScopeAdmin})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.clientOf(t, other.Secret).Down(t.Context()); problem(err).Code != api.CodeForbidden {
		t.Errorf("an admin of another tenant: %v", err)
	}
}

// Where no server has ever run there is nothing to stop, and nothing is made.
func TestDownMakesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, env []string) {
		dir := filepath.Join(t.TempDir(), "none")
		cmd := exec.Command(testkit.Binary(t), "down")
		cmd.Env = append(append(os.Environ(), env...), "BERTH_DATA_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "0 sandboxes stopped\n") {
			t.Errorf("%s, %v", out, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("the data directory was made")
		}
	})
}
