package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestKeptIsMadeOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := Kept("x", nil); err == nil {
		t.Error("outside of a module: no error")
	}
	if err := os.WriteFile("go.mod", []byte("module example.com/other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	if _, err := Kept("a/b-1", func(string) error { return no }); !errors.Is(err, no) {
		t.Errorf("what went wrong is not told: %v", err)
	}
	if err := os.MkdirAll("bin/tests/a/b-1.new/left", 0o755); err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := Kept("a/b-1", func(dir string) error {
				made.Add(1)
				return os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
			})
			if files, _ := os.ReadDir(dir); err != nil || len(files) != 1 || filepath.Base(dir) != "b-1" {
				t.Errorf("%s has %v, %v", dir, files, err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
}

func TestKeptWithoutAPlace(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"go.mod", "bin"} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Kept("x", nil); err == nil {
		t.Error("bin is a file: no error")
	}
	if err := errors.Join(os.Remove("bin"), os.MkdirAll("bin/tests/.x.lock", 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := Kept("x", nil); err == nil {
		t.Error("without a lock: no error")
	}
}
