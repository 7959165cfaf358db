package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
)

// smallDisk is a directory on a file system of its own.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A full disk is said to be one, and leaves nothing behind.
func TestFullDisk(t *testing.T) {
	image := t.TempDir()
	for _, options := range []string{"nr_inodes=7", "nr_inodes=11", "nr_inodes=14", "nr_inodes=17", "nr_inodes=21"} {
		t.Run(options, func(t *testing.T) {
			dir := filepath.Join(smallDisk(t, options), "local")
			d, err := local.New(t.Context(), local.Options{Dir: dir, Exe: helper, Tier: local.TierRoot, DiskEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			s := spec()
			s.Base, s.Limits.DiskSoft = image, true
			id := driver.ID(s.Key.Sandbox + "-1")
			_, err = d.Create(t.Context(), s)
			if driver.Classify(err) != "quota" {
				t.Errorf("Create on a full disk: %v", err)
			}
			if _, err := d.Inspect(t.Context(), id); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("Inspect: %v", err)
			}
			noneLeft(t, d, dir, id)
		})
	}
}

// A helper that cannot be started, or does not start, leaves nothing behind.
func TestHelperThatDoesNotStart(t *testing.T) {
	if _, err := local.New(t.Context(), local.Options{Dir: t.TempDir(), Tier: local.TierRoot, Exe: "/no/such/program"}); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("a helper that is not there: %v", err)
	}
	for exe, want := range map[string]string{
		"/etc/passwd": "clone the helper", "/usr/bin/true": "before it was ready",
	} {
		dir := t.TempDir()
		d := open(t, dir, func(o *local.Options) { o.Exe = exe })
		s := spec()
		id := driver.ID(s.Key.Sandbox + "-1")
		if _, err := d.Create(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", exe, err)
		}
		noneLeft(t, d, dir, id)
	}
}

// What cannot be read as an instance is nobody's, and stays.
func TestDamagedRecord(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	id := create(t, d, spec()).ID
	other := spec()
	otherID := create(t, d, other).ID
	good, err := os.ReadFile(filepath.Join(dir, string(id), "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", strings.ReplaceAll(string(good), "-", "")} {
		if err := os.WriteFile(filepath.Join(dir, string(id), "record.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Inspect(t.Context(), id); err == nil || errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Inspect: %v", err)
		}
		nobodys := 0
		for st, err := range d.List(t.Context(), driver.Selector{}) {
			if err != nil {
				t.Fatal(err)
			}
			if st.ID == id && st.Key == (driver.Key{}) && st.Phase == driver.PhaseUnknown {
				nobodys++
			}
		}
		if nobodys != 1 {
			t.Errorf("it is listed as nobody's %d times", nobodys)
		}
		for st, err := range d.List(t.Context(), driver.Selector{Sandbox: other.Key.Sandbox}) {
			if err != nil || st.ID != otherID {
				t.Errorf("%+v, %v", st, err)
			}
		}
	}
	if _, err := open(t, dir).Inspect(t.Context(), id); err == nil || errors.Is(err, driver.ErrNotFound) {
		t.Errorf("after another look: %v", err)
	}
}

// What others left in the directory is not taken for instances.
func TestLitterIsNoInstance(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"lost+found", "UPPER-1", "a-0", "a-01", "-", ".x-1"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(dir, "link-1")); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir)
	for st, err := range d.List(t.Context(), driver.Selector{}) {
		if err == nil {
			t.Errorf("listed: %+v", st)
		}
	}
}
