package files

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// UnpackOptions configure the target and the limits of an archive.
type UnpackOptions struct {
	Path       string // a directory, as Clean returns it; created if it is missing
	MaxBytes   int64  // limit for all files together; zero: none
	MaxEntries int    // zero: 100,000
}

// Unpacked describes the extracted contents of an archive.
type Unpacked struct {
	Files, Folders, Links int
	Bytes                 int64
}

// Unpack extracts a tar stream. It keeps only the nine permission bits of a mode. A hard link to an earlier entry
// becomes a copy. Unpack stops at the first entry that is not allowed: a path that leads outside or through a link, a
// device, a pipe, or a hard link to any other file. The error names the entry. Extracted entries stay.
func Unpack(ctx context.Context, fsys FS, from io.Reader, o UnpackOptions) (Unpacked, error) {
	if o.MaxEntries == 0 {
		o.MaxEntries = 100_000
	}
	in := bufio.NewReaderSize(from, 64<<10)
	if err := plain(in); err != nil {
		return Unpacked{}, err
	}
	if err := fsys.Mkdir(ctx, o.Path); err != nil {
		return Unpacked{}, err
	}
	u := &unpacker{UnpackOptions: o, ctx: ctx, fs: fsys, tar: tar.NewReader(in), dirs: map[string]bool{o.Path: true}}
	for n := 0; ; n++ {
		h, err := u.tar.Next()
		switch {
		case err == io.EOF:
			return u.Unpacked, nil
		case err != nil:
			return u.Unpacked, unreadable(err)
		case n == o.MaxEntries:
			return u.Unpacked, fault.Errorf("unpack", api.CodeTooLarge, "the archive has more than %d entries", n)
		}
		if err := u.entry(h); err != nil {
			return u.Unpacked, entryError(h.Name, err)
		}
	}
}

// plain returns an error for a compressed archive: its size is not known before it is decompressed.
func plain(in *bufio.Reader) error {
	start, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return &SourceError{err}
	}
	for name, magic := range map[string]string{"gzip": "\x1f\x8b", "zstd": "\x28\xb5\x2f\xfd", "bzip2": "BZh", "xz": "\xfd7zX", "zip": "PK\x03\x04"} {
		if bytes.HasPrefix(start, []byte(magic)) {
			return fault.Errorf("unpack", api.CodeInvalidArchive, "the archive is %s, not a plain tar", name)
		}
	}
	return nil
}

// unreadable converts an error of the tar reader: to invalid_archive if the archive is damaged, and otherwise to a
// SourceError.
func unreadable(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) {
		return fault.Errorf("unpack", api.CodeInvalidArchive, "the archive is broken or breaks off: %w", err)
	}
	return &SourceError{err}
}

// entryError adds the entry's name to a fault.Error. It passes the cause of a SourceError to unreadable.
func entryError(name string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		e := *known
		e.Op, e.Err = "unpack", fmt.Errorf("entry %q: %w", clip(name), known.Err)
		return &e
	}
	var source *SourceError
	if errors.As(err, &source) {
		return unreadable(source.Err)
	}
	return err
}

type unpacker struct {
	UnpackOptions
	Unpacked
	ctx  context.Context
	fs   FS
	tar  *tar.Reader
	dirs map[string]bool // paths that are known to be directories and not links
}

func (u *unpacker) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	at, err := u.place(h.Name)
	if err != nil || at == u.Path {
		return err
	}
	if err := u.checkParents(at); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(at, h, u.tar)
	case tar.TypeDir:
		u.Folders++
		return u.fs.Mkdir(u.ctx, at)
	case tar.TypeSymlink:
		u.Links++
		return u.link(h.Linkname, at)
	case tar.TypeLink:
		return u.copy(at, h)
	}
	return refused("is a device, a pipe or of an unknown kind")
}

func refused(format string, args ...any) error {
	return fault.Errorf("unpack", api.CodeInvalidArchive, format, args...)
}

// place returns the path for an entry. It allows names that Clean refuses in requests, but no ".." and no leading
// slash.
func (u *unpacker) place(name string) (string, error) {
	for segment := range strings.SplitSeq(name, "/") {
		if segment == ".." {
			return "", outside(name)
		}
	}
	if strings.HasPrefix(name, "/") {
		return "", outside(name)
	}
	if name = path.Clean(name); name == "." {
		return u.Path, nil
	}
	return join(u.Path, name), nil
}

// checkParents returns an error if a parent of the path is a link.
func (u *unpacker) checkParents(at string) error {
	parent := parentOf(at)
	if u.dirs[parent] || parent == "" {
		return nil
	}
	if err := u.checkParents(parent); err != nil {
		return err
	}
	info, err := u.fs.Stat(u.ctx, parent)
	switch {
	case err == nil && info.Mode&fs.ModeSymlink != 0:
		return refused("leads through the link %q", clip(parent))
	case err == nil && info.Mode.IsDir():
		u.dirs[parent] = true
	}
	return nil // missing parents are created later, which also reports other errors
}

func (u *unpacker) file(at string, h *tar.Header, from io.Reader) error {
	if u.Bytes += h.Size; u.MaxBytes > 0 && u.Bytes > u.MaxBytes {
		return fault.Errorf("unpack", api.CodeTooLarge, "the files take more than %d bytes", u.MaxBytes)
	}
	u.Files++
	perm := fs.FileMode(h.Mode).Perm()
	if perm == 0 {
		perm = filePerm
	}
	_, _, err := u.fs.Write(u.ctx, at, from, WriteOptions{Perm: perm, ModTime: h.ModTime, Lazy: true})
	return err
}

// link creates a link and replaces an existing file or link.
func (u *unpacker) link(target, at string) error {
	delete(u.dirs, at)
	err := u.fs.Symlink(u.ctx, target, at)
	if fault.CodeOf(err) != api.CodeFileExists {
		return err
	}
	if err := u.fs.Remove(u.ctx, at, false); err != nil {
		return err
	}
	return u.fs.Symlink(u.ctx, target, at)
}

func (u *unpacker) copy(at string, h *tar.Header) error {
	source, err := u.place(h.Linkname)
	if err != nil {
		return err
	}
	if err := u.checkParents(source); err != nil {
		return err
	}
	// Stat before Open: Open would follow a link.
	info, err := u.fs.Stat(u.ctx, source)
	if err != nil || !info.Mode.IsRegular() {
		return refused("is a hard link to %q, which is no file of this archive", clip(h.Linkname))
	}
	r, err := u.fs.Open(u.ctx, source)
	if err != nil {
		return err
	}
	defer r.Close()
	whole := *h
	whole.Size, whole.Mode = r.Info().Size, int64(info.Mode.Perm())
	return u.file(at, &whole, io.LimitReader(r, whole.Size))
}
