package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestToolIsBuiltOnce(t *testing.T) {
	const pkg = "github.com/versity/versitygw/cmd/versitygw"
	path := Tool(t, pkg)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(Tool(t, pkg))
	if err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was built again: %v", err)
	}
	if !strings.HasSuffix(path, "-v1.8.0") {
		t.Errorf("it is %s; its version is pinned elsewhere, too", path)
	}
}

func TestToolsThatCannotBeBuilt(t *testing.T) {
	pauses := toolPauses
	defer func() { toolPauses = pauses }()
	toolPauses = []time.Duration{0}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "none")
	if err := buildTool(root, "example.com/none", "tools/versitygw.mod", to); err == nil || !strings.Contains(err.Error(), "example.com/none") {
		t.Errorf("%v", err)
	}
	if err := buildTool(root, "./internal/testkit/cmd/seeded", "go.mod", to); err != nil {
		t.Errorf("a tool of our own: %v", err)
	}
	if _, err := BuildTool("example.com/unpinned"); err == nil {
		t.Error("a tool without a version was built")
	}
	if _, err := toolVersion(filepath.Join(root, "tools", "versitygw.mod"), "unpinned"); err == nil {
		t.Error("a version was found")
	}
}

func TestToolsOfAnotherModule(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := BuildTool("example.com/x"); err == nil || !strings.Contains(err.Error(), "no go.mod") {
		t.Errorf("outside of a module: %v", err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/other\n")
	write("tools/x.mod", "require example.com/x v1.2.3\n")
	write("bin/tests/x-v1.2.3", "")
	if path, err := BuildTool("example.com/x"); err != nil || filepath.Base(path) != "x-v1.2.3" {
		t.Errorf("a tool that is there: %s, %v", path, err)
	}
	if err := errors.Join(os.Remove("bin/tests/.x.lock"), os.Mkdir("bin/tests/.x.lock", 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := BuildTool("example.com/x"); err == nil {
		t.Error("without a lock: no error")
	}
	if err := os.RemoveAll("bin"); err != nil {
		t.Fatal(err)
	}
	write("bin", "")
	if _, err := BuildTool("example.com/x"); err == nil {
		t.Error("without a folder: no error")
	}
}
