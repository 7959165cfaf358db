package httpapi

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/npm"
)

// Types that are generated from the OpenAPI document compile, and tell the events of streams apart.
func TestGeneratedTypeScriptCompiles(t *testing.T) {
	testkit.Proves(t, "X5")
	bin := filepath.Join(npm.Install(t, "openapi-typescript", "7.13.0"), "node_modules", ".bin")
	dir := t.TempDir()
	spec, source := filepath.Join(dir, "openapi.json"), filepath.Join(dir, "client.ts")
	program, err := os.ReadFile("testdata/client.ts")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source, program, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(spec, newSite(t).do(call{path: "/openapi.json"}).is(http.StatusOK).body, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"openapi-typescript", spec, "-o", filepath.Join(dir, "schema.d.ts")},
		{"tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", source},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, args[0]), args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
}
