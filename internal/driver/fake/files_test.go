package fake_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/drivertest"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/files"
)

// filed opens a driver whose instances have files.
func filed(t testing.TB, dir string) driver.Driver {
	t.Helper()
	if err := fake.MakeFiles(dir); err != nil {
		t.Fatal(err)
	}
	d, err := fake.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSuiteWithFiles(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{New: func(t *testing.T) driver.Driver { return filed(t, t.TempDir()) }})
}

func TestFilesEndWithTheInstance(t *testing.T) {
	dir := t.TempDir()
	d, other := filed(t, dir), filed(t, dir)
	st := create(t, d, "a", 1)
	fs := filesPath(t, d, st.ID)
	if _, _, err := fs.Write(t.Context(), "f", strings.NewReader("text"), files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	f, err := filesPath(t, other, st.ID).Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	_ = f.Close()
	if err := d.Destroy(t.Context(), st.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fs.Write(t.Context(), "late", strings.NewReader("text"), files.WriteOptions{}); err == nil {
		t.Error("a file was written to an instance that ended")
	}
	_, err = other.(driver.Filer).Files(t.Context(), st.ID, files.WorkingDir)
	wantErr(t, err, driver.ErrNotFound)
	_, err = other.(driver.Filer).Files(t.Context(), create(t, d, "b", 1).ID, "elsewhere")
	wantErr(t, err, driver.ErrInvalid)
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func filesPath(t testing.TB, d driver.Driver, id driver.ID) files.FS {
	t.Helper()
	fs, err := d.(driver.Filer).Files(t.Context(), id, files.WorkingDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.Close() })
	return fs
}

func TestWithoutAFolderOfFilesThereAreNone(t *testing.T) {
	d, err := fake.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.(driver.Filer); ok {
		t.Error("the instances have files")
	}
}
