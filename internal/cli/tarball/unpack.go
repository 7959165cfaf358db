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

// Unpack extracts the archive into the folder. It returns an error for an entry whose name leads out of the folder,
// because no legitimate archive has one.
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
	plain map[string]bool // paths known to be folders and not links to folders
}

func (u *unpacker) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		if why := h.PAXRecords["comment"]; why != "" {
			u.leaveOut("", "%s", why) // the packer's note about files that it left out
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
	u.leaveOut(name, "not a file, folder or link")
	return nil
}

// folder creates a folder and its parents. It keeps an existing folder and refuses any other existing entry, including
// a link to a folder.
func (u *unpacker) folder(name string, perm fs.FileMode) error {
	if u.plain[name] {
		return nil
	}
	if err := u.folder(path.Dir(name), 0o755); err != nil {
		return err
	}
	err := u.dir.Mkdir(name, perm|0o700) // the owner must be able to write the contents
	if errors.Is(err, fs.ErrExist) {
		info, looked := u.dir.Lstat(name)
		switch {
		case looked != nil:
			return looked
		case !info.IsDir():
			return wrongKind(u.dir, name, info, "a folder")
		}
		err = nil
	}
	u.plain[name] = err == nil
	return err
}

// wrongKind returns the error that another kind of entry exists at the path.
func wrongKind(dir *os.Root, name string, info fs.FileInfo, wanted string) error {
	what := "a file"
	switch {
	case info.IsDir():
		what = "a folder"
	case info.Mode()&fs.ModeSymlink != 0:
		what = "a link"
	}
	return fmt.Errorf("%s is %s and cannot become %s", filepath.Join(dir.Name(), name), what, wanted)
}

// file extracts a file. It writes a temporary file and renames it, so that it replaces an existing link instead of
// writing through it, and an interrupted copy leaves no partial file.
func (u *unpacker) file(name string, h *tar.Header) error {
	u.Files++
	n, err := WriteFile(u.ctx, u.dir, name, u.tar, File{h.FileInfo().Mode().Perm(), h.ModTime}, u.watch)
	u.Bytes += n
	return err
}

// File is the metadata of a file.
type File struct {
	Perm    fs.FileMode // the umask applies to it
	ModTime time.Time   // zero: the current time
}

// WriteFile writes a whole file atomically. It replaces a file or link with the same name.
func WriteFile(ctx context.Context, dir *os.Root, name string, from io.Reader, like File, watch Watch) (int64, error) {
	if info, err := dir.Lstat(name); err == nil && info.IsDir() {
		return 0, wrongKind(dir, name, info, "a file")
	}
	beside := path.Join(path.Dir(name), ".berth-cp-"+rand.Text())
	file, err := dir.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, like.Perm.Perm())
	if err != nil {
		return 0, err
	}
	watch.report(1, 0)
	n, err := io.Copy(file, &meter{ctx, from, watch})
	err = errors.Join(err, file.Close())
	if at := like.ModTime; err == nil && !at.IsZero() {
		err = dir.Chtimes(beside, at, at)
	}
	if err == nil {
		err = dir.Rename(beside, name)
	}
	if err != nil {
		_ = dir.Remove(beside) // on a full disk it may take all remaining space
	}
	return n, err
}

// link creates a link to a path within the folder. It leaves out other links, because an untrusted archive must not
// choose their targets on this machine.
func (u *unpacker) link(name, target string) error {
	if !linkStaysIn(path.Dir(name), target) {
		u.leaveOut(name, "a link that leads out of the folder, to %s", target)
		return nil
	}
	info, err := u.dir.Lstat(name)
	switch {
	case err == nil && info.IsDir():
		return wrongKind(u.dir, name, info, "a link")
	case err == nil:
		if err := u.dir.Remove(name); err != nil {
			return err
		}
	}
	u.Links++
	return u.dir.Symlink(target, name)
}

// linkStaysIn reports whether a link in the folder leads to a path below the root, whatever other links exist. The
// target may go up only at its beginning: "a/.." can lead anywhere if a is a link.
func linkStaysIn(folder, target string) bool {
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
