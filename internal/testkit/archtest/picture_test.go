package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
)

// TestArchitectureShowsTheLayers compares the picture in docs/ARCHITECTURE.md with the table in layers.go.
func TestArchitectureShowsTheLayers(t *testing.T) {
	root := moduleRoot(t)
	m, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "ARCHITECTURE.md")
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := withPicture(string(doc), Picture(m))
	if !ok {
		t.Fatalf("docs/ARCHITECTURE.md lacks the marks %q and %q", pictureStart, pictureEnd)
	}
	testkit.Golden(t, path, text)
}

func TestPictureFollowsTheTable(t *testing.T) {
	m := tree(t, map[string]string{
		"internal/driver/a.go":            src("driver"),
		"internal/driver/local/a.go":      src("local"),
		"internal/driver/drivertest/a.go": src("drivertest"),
		"internal/store/a.go":             src("store"),
		"cmd/berth/main.go":               src("main"),
	})
	got := Picture(m)
	for _, want := range []string{"L5  programs and tests cmd/berth\n", "internal/driver      ← local\n", " store\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "engine") {
		t.Errorf("the picture shows a package that does not exist:\n%s", got)
	}
	old := "a\n" + pictureStart + "old\n" + pictureEnd + "b\n"
	if text, ok := withPicture(old, got); !ok || text == old || !strings.Contains(text, got) {
		t.Errorf("a document with an old picture: %v\n%s", ok, text)
	}
	if _, ok := withPicture("no marks", got); ok {
		t.Error("a document without marks was accepted")
	}
}
