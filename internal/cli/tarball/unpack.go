package tarball

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Unpack writes what is in the archive below the folder. An entry whose name leads out of it ends the
// copy with an error: no honest archive has one.
func Unpack(ctx context.Context, from io.Reader, dir *os.Root, watch Watch) (Tally, error) {
	u := &unpacker{ctx: ctx, dir: dir, tar: tar.NewReader(from), watch: watch, plain: map[string]bool{".": true}}
	for {
		h, err := u.tar.Next()
		switch {
		case err == io.EOF:
			return u.Tally, nil
		case err != nil:
			return u.Tally, fmt.Errorf("read the archive: %w", err)
		case ctx.Err() != nil:
			return u.Tally, context.Cause(ctx)
		}
		if err := u.entry(h); err != nil {
			return u.Tally, err
		}
	}
}

type unpacker struct {
	Tally
	ctx   context.Context
	dir   *os.Root
	tar   *tar.Reader
	watch Watch
	plain map[string]bool // known to be folders, and not links to any
}

func (u *unpacker) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		if why := h.PAXRecords["comment"]; why != "" {
			u.leave("", "%s", why) // the packer's own words about what it left out
		}
		return nil
	}
	name := path.Clean(h.Name)
	switch {
	case !filepath.IsLocal(h.Name) || strings.ContainsRune(h.Name, 0):
		return fmt.Errorf("the archive is refused: its entry %q leads out of the folder", h.Name)
	case name == ".":
		return nil
	}
	if err := u.folder(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		u.Folders++
		return u.folder(name, h.FileInfo().Mode().Perm())
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, h)
	case tar.TypeSymlink:
		return u.link(name, h.Linkname)
	}
	u.leave(name, "not a file, folder or link")
	return nil
}

// folder makes a folder with those above it. What is in its place, a link included, is left alone.
func (u *unpacker) folder(name string, perm fs.FileMode) error {
	if u.plain[name] {
		return nil
	}
	if err := u.folder(path.Dir(name), 0o755); err != nil {
		return err
	}
	err := u.dir.Mkdir(name, perm|0o700) // what is in it has to be written, too
	if errors.Is(err, fs.ErrExist) {
		info, looked := u.dir.Lstat(name)
		switch {
		case looked != nil:
			return looked
		case !info.IsDir():
			return inPlace(u.dir, name, info, "a folder")
		}
		err = nil
	}
	u.plain[name] = err == nil
	return err
}

// inPlace says that something stands where another kind of thing should go.
func inPlace(dir *os.Root, name string, info fs.FileInfo, wanted string) error {
	what := "a file"
	switch {
	case info.IsDir():
		what = "a folder"
	case info.Mode()&fs.ModeSymlink != 0:
		what = "a link"
	}
	return fmt.Errorf("%s is %s and cannot become %s", filepath.Join(dir.Name(), name), what, wanted)
}

// file writes beside the place and moves it there when it is whole, so that a link in its place is
// replaced and not written through, and a copy that breaks off leaves no half file.
func (u *unpacker) file(name string, h *tar.Header) error {
	u.Files++
	n, err := WriteFile(u.ctx, u.dir, name, u.tar, File{h.FileInfo().Mode().Perm(), h.ModTime}, u.watch)
	u.Bytes += n
	return err
}

// File is how a file is besides what is in it.
type File struct {
	Perm    fs.FileMode // the umask takes from it
	ModTime time.Time   // zero: now
}

// WriteFile writes a file as a whole, in the place of a file or link that is there.
func WriteFile(ctx context.Context, dir *os.Root, name string, from io.Reader, like File, watch Watch) (int64, error) {
	if info, err := dir.Lstat(name); err == nil && info.IsDir() {
		return 0, inPlace(dir, name, info, "a file")
	}
	beside := path.Join(path.Dir(name), ".berth-cp-"+rand.Text())
	file, err := dir.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, like.Perm.Perm())
	if err != nil {
		return 0, err
	}
	watch.tell(1, 0)
	n, err := io.Copy(file, &meter{ctx, from, watch})
	err = errors.Join(err, file.Close())
	if at := like.ModTime; err == nil && !at.IsZero() {
		err = dir.Chtimes(beside, at, at)
	}
	if err == nil {
		err = dir.Rename(beside, name)
	}
	if err != nil {
		_ = dir.Remove(beside) // it may be all there is on a full disk
	}
	return n, err
}

// link makes a link that leads to something in the folder. Others are left out: what a stranger's link
// points at on this machine is whatever the stranger likes.
func (u *unpacker) link(name, target string) error {
	if !staysIn(path.Dir(name), target) {
		u.leave(name, "a link that leads out of the folder, to %s", target)
		return nil
	}
	info, err := u.dir.Lstat(name)
	switch {
	case err == nil && info.IsDir():
		return inPlace(u.dir, name, info, "a link")
	case err == nil:
		if err := u.dir.Remove(name); err != nil {
			return err
		}
	}
	u.Links++
	return u.dir.Symlink(target, name)
}

// staysIn says whether a link in the folder leads to somewhere below the root, whatever other links there
// are. It may go up first, through folders that are no links, and then only down: a way up behind a link
// begins wherever that leads.
func staysIn(folder, target string) bool {
	if target == "" || path.IsAbs(target) || !filepath.IsLocal(path.Join(folder, target)) {
		return false
	}
	down := false
	for step := range strings.SplitSeq(target, "/") {
		if step == ".." && down {
			return false
		}
		down = down || step != ".." && step != "." && step != ""
	}
	return true
}
