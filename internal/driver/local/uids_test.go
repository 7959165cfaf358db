package local

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit"
)

// ranges opens the lock file and finds the number of a free range.
func ranges(t *testing.T) (lock *os.File, free int) {
	t.Helper()
	d := assemble(&Driver{dir: t.TempDir()})
	r, err := d.takeRange()
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	if lock, err = openUIDs(runDir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	return lock, (r.base - firstUID) / rangeSize
}

// An instance of an earlier server is known by its socket alone, one of this server by the lock.
func TestRangesOfOthersAreTaken(t *testing.T) {
	lock, n := ranges(t)
	name, err := bindName(n)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holdRange(lock, n); !errors.Is(err, errTaken) {
		t.Errorf("an earlier server's range: %v", err)
	}
	name.Close()
	if name, err = holdRange(lock, n); err != nil || name == nil {
		t.Fatalf("a free range: %v, %v", name, err)
	}
	name.Close()
	other, err := openUIDs(runDir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := holdRange(other, n); !errors.Is(err, errTaken) {
		t.Errorf("a range that is locked: %v", err)
	}
	lock.Close()
	if name, err = holdRange(other, n); err != nil {
		t.Errorf("a range that was given back: %v", err)
	}
	closeAll(name)
}

// Any user can bind the name of a range. That neither takes the range nor keeps sandboxes from being made.
func TestNamesOfOtherUsersTakeNoRange(t *testing.T) {
	testkit.Proves(t, "E3")
	lock, n := ranges(t)
	var squatter *os.File
	err := onThread(func() (bool, error) {
		runtime.LockOSThread()
		if err := becomeUser(65533); err != nil {
			return false, err
		}
		var err error
		squatter, err = bindName(n)
		return false, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	name, err := holdRange(lock, n)
	if err != nil || name != nil {
		t.Errorf("the range is not given out: %v, %v", name, err)
	}
}

// Only root may be able to lock ranges.
func TestLockFileIsRootsAlone(t *testing.T) {
	dir := t.TempDir()
	open, closed, link := filepath.Join(dir, "open"), filepath.Join(dir, "closed"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(open, 0o755), os.Chmod(open, 0o777), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	f, err := openUIDs(open, link, filepath.Join(dir, "no/such"), closed)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Name() != filepath.Join(closed, uidsName) {
		t.Errorf("the lock file is %s", f.Name())
	}
	var st unix.Stat_t
	if err := unix.Stat(f.Name(), &st); err != nil || st.Mode&0o777 != 0o600 {
		t.Errorf("mode %o, %v", st.Mode, err)
	}
	if _, err := openUIDs(open); err == nil {
		t.Error("a directory that everybody can write to is used")
	}
}
