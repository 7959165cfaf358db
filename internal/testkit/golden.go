package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// UpdateGolden is the environment variable that makes [Golden] overwrite its files.
const UpdateGolden = "BERTH_UPDATE_GOLDEN"

// Golden compares got with the file at path, which is relative to the test's package and usually
// begins with testdata/. With BERTH_UPDATE_GOLDEN=1 it writes the file instead.
func Golden[T ~string | ~[]byte](t testing.TB, path string, got T) {
	t.Helper()
	if os.Getenv(UpdateGolden) == "1" {
		writeGolden(t, path, []byte(got))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("read golden file: %v; write it with %s=1 go test", err, UpdateGolden)
		return
	}
	if string(want) != string(got) {
		t.Errorf("output differs from %s at %s\nif the new output is right: %s=1 go test",
			path, firstDifference(string(want), string(got)), UpdateGolden)
	}
}

func writeGolden(t testing.TB, path string, got []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Errorf("make golden folder: %v", err)
		return
	}
	if err := os.WriteFile(path, got, 0o644); err != nil {
		t.Errorf("write golden file: %v", err)
	}
}

// firstDifference describes the first line that differs between the two texts, with both versions of it.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < len(w) && at < len(g) && w[at] == g[at] {
		at++
	}
	return fmt.Sprintf("line %d\n  want: %s\n  got:  %s", at+1, lineAt(w, at), lineAt(g, at))
}

func lineAt(lines []string, at int) string {
	if at >= len(lines) {
		return "(end of file)"
	}
	return fmt.Sprintf("%q", lines[at])
}
