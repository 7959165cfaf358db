package auth_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/fault"
)

func TestMachineKeepsItsName(t *testing.T) {
	dir := t.TempDir()
	first, err := auth.LoadHost(dir)
	if err != nil || first == "" {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := auth.LoadHost(dir); err != nil || again != first {
		t.Errorf("%q, then %q, %v", first, again, err)
	}
	if other, err := auth.LoadHost(t.TempDir()); err != nil || other == first {
		t.Errorf("another data directory is %q too, %v", other, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.LoadHost(filepath.Join(dir, "file", "sub")); fault.CodeOf(err) != api.CodeInvalidConfig {
		t.Error(err)
	}
}
