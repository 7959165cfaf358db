package workspace_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/workspace"
)

// checked is a store that takes objects by their checksums, as S3 does.
type checked struct {
	blob.Store
	first func() error // is called before an object is taken, and may refuse it
	put   int
}

func (c *checked) CheckedMost() int64 { return 64 << 20 }

func (c *checked) PutChecked(ctx context.Context, key string, r io.ReaderAt, size int64, sums blob.Sums) error {
	if err := c.first(); err != nil {
		return err
	}
	text := make([]byte, size)
	if _, err := r.ReadAt(text, 0); err != nil {
		return err
	}
	if sha256.Sum256(text) != sums.SHA256 || crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) != sums.CRC32C {
		return errors.New("these are other bytes")
	}
	c.put++
	_, err := c.Put(ctx, key, strings.NewReader(string(text)), size, blob.PutOptions{})
	return err
}

// wrapped is a store around another.
type wrapped struct{ blob.Store }

func (w wrapped) Unwrap() blob.Store { return w.Store }

// A large file is stored by its checksums; where that fails, or the file is another by then, it is sent as
// anywhere else, and what was saved is what comes back.
func TestLargeFilesAreStoredByTheirChecksums(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 5<<16)
	for name, c := range map[string]struct {
		first func(path string) error
		put   int
	}{
		"taken":   {func(string) error { return nil }, 1},
		"refused": {func(string) error { return errors.New("no") }, 0},
		"changed": {func(path string) error { return os.WriteFile(path, []byte(strings.ToUpper(large)), 0o644) }, 0},
		"shorter": {func(path string) error { return os.Truncate(path, 5<<20-1) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"large": large, "small": "text"})
			once := false
			store := &checked{Store: newMemory(), first: func() error {
				if once {
					return errors.New("it was tried already")
				}
				once = true
				return c.first(filepath.Join(dir, "large"))
			}}
			r := &workspace.Repo{Store: wrapped{store}}
			push(t, r, dir, nil)
			if store.put != c.put {
				t.Errorf("%d were stored by their checksums, not %d", store.put, c.put)
			}
			to := t.TempDir()
			if _, err := r.Restore(t.Context(), open(t, to), nil, "", workspace.PullOptions{}); err != nil {
				t.Fatal(err)
			}
			same(t, dir, to)
		})
	}
}

// In the plain layout an object has one key, so that nothing may come after what was sent instead.
func TestPlainFilesAreNotStoredByTheirChecksums(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"large": strings.Repeat("x", 5<<20)})
	store := &checked{Store: newMemory(), first: func() error { return errors.New("it was asked") }}
	push(t, &workspace.Repo{Store: store, Layout: workspace.Plain}, dir, nil)
	if store.put != 0 {
		t.Error("it was stored by its checksum")
	}
}

// An index that has learnt nothing new is left in its file as it is.
func TestIndexIsWrittenOnlyWhenItIsAnother(t *testing.T) {
	r, dir := &workspace.Repo{Store: newMemory()}, t.TempDir()
	write(t, dir, map[string]string{"a.txt": "text"})
	path := filepath.Join(t.TempDir(), "index")
	must(t, push(t, r, dir, nil).Index.Save(path))
	x, err := workspace.LoadIndex(path)
	must(t, err, os.Chtimes(path, time.Unix(7, 0), time.Unix(7, 0)))
	was, err := os.Stat(path)
	must(t, err, x.Save(path))
	if is, err := os.Stat(path); err != nil || !os.SameFile(was, is) || !is.ModTime().After(was.ModTime()) {
		t.Errorf("what was read from there was written there, or not marked as looked at: %v", err)
	}
	must(t, os.Remove(path), x.Save(path))
	if y, err := workspace.LoadIndex(path); err != nil || y == nil || y.ID != x.ID {
		t.Errorf("one that was removed: %v, %v", y, err)
	}
	must(t, x.Save(path+"-2"))
	if y, err := workspace.LoadIndex(path + "-2"); err != nil || y == nil || y.ID != x.ID {
		t.Errorf("elsewhere: %v, %v", y, err)
	}
	write(t, dir, map[string]string{"a.txt": "other"})
	must(t, push(t, r, dir, x).Index.Save(path))
	if y, err := workspace.LoadIndex(path); err != nil || y == nil || y.Parent != x.ID {
		t.Errorf("a new one: %v, %v", y, err)
	}
}
