package workspace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The kernel gives the number of a closed file to the next one that is opened, which is nobody's to read or to
// close who had the first.
func TestClosedFileIsNoOther(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"ours": "ours", "theirs": "theirs"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	err = d.Run(func(root int) error {
		ours, _, err := openFile(root, "ours")
		if err != nil {
			return err
		}
		if err := ours.Close(); err != nil {
			return err
		}
		theirs, _, err := openFile(root, "theirs")
		if err != nil {
			return err
		}
		if theirs.fd != ours.fd {
			t.Logf("the number is %d, and was %d", theirs.fd, ours.fd)
		}
		b := make([]byte, 4)
		if _, err := ours.Read(b); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a closed file is read: %v", err)
		}
		if _, err := ours.ReadAt(b, 0); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a closed file is read: %v", err)
		}
		if err := ours.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a closed file is closed: %v", err)
		}
		if text, err := io.ReadAll(theirs); err != nil || string(text) != "theirs" {
			t.Errorf("the other file reads as %q, %v", text, err)
		}
		return theirs.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}
