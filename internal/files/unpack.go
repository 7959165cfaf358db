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
	"github.com/berthdev/berth/internal/sandbox"
)

// UnpackOptions say where an archive goes and how large it may be.
type UnpackOptions struct {
	Path       string // a directory, as Clean returns it; made if it is missing
	MaxBytes   int64  // of files together; zero: no bound
	MaxEntries int    // zero: 100,000
}

// Unpacked is what came out of an archive.
type Unpacked struct {
	Files, Folders, Links int
	Bytes                 int64
}

// Unpack reads a tar and writes what is in it. Of permissions the usual nine bits are kept, nothing
// else; a hard link to an earlier entry becomes a copy of it. It stops with an error that names the entry
// at the first that is not allowed: one whose path leads out or through a link, a device, a pipe, a hard
// link to anything else. What came before it stays.
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
			return u.Unpacked, sandbox.Errorf("unpack", api.CodeTooLarge, "the archive has more than %d entries", n)
		}
		if err := u.entry(h); err != nil {
			return u.Unpacked, about(h.Name, err)
		}
	}
}

// plain refuses what is compressed: how large it is would show too late.
func plain(in *bufio.Reader) error {
	start, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return &SourceError{err}
	}
	for name, magic := range map[string]string{"gzip": "\x1f\x8b", "zstd": "\x28\xb5\x2f\xfd", "bzip2": "BZh", "xz": "\xfd7zX", "zip": "PK\x03\x04"} {
		if bytes.HasPrefix(start, []byte(magic)) {
			return sandbox.Errorf("unpack", api.CodeInvalidArchive, "the archive is %s, not a plain tar", name)
		}
	}
	return nil
}

// unreadable tells a broken archive from a broken sender.
func unreadable(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) {
		return sandbox.Errorf("unpack", api.CodeInvalidArchive, "the archive is broken or breaks off: %w", err)
	}
	return &SourceError{err}
}

// about puts the entry's name in front of an error of ours. What else there is comes from reading.
func about(name string, err error) error {
	var known *sandbox.Error
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
	dirs map[string]bool // known to be directories, and not links to any
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
	return sandbox.Errorf("unpack", api.CodeInvalidArchive, format, args...)
}

// place is where an entry goes. Names that Clean refuses for requests are names all the same, but nothing
// leads up.
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

// checkParents refuses a path that leads through a link, whether it was there or came with the archive.
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
	return nil // what is missing is made, and what is wrong shows then
}

func (u *unpacker) file(at string, h *tar.Header, from io.Reader) error {
	if u.Bytes += h.Size; u.MaxBytes > 0 && u.Bytes > u.MaxBytes {
		return sandbox.Errorf("unpack", api.CodeTooLarge, "the files take more than %d bytes", u.MaxBytes)
	}
	u.Files++
	perm := fs.FileMode(h.Mode).Perm()
	if perm == 0 {
		perm = filePerm
	}
	_, _, err := u.fs.Write(u.ctx, at, from, WriteOptions{Perm: perm, ModTime: h.ModTime, Lazy: true})
	return err
}

// link makes a link, in the place of a file or link that is there.
func (u *unpacker) link(target, at string) error {
	delete(u.dirs, at)
	err := u.fs.Symlink(u.ctx, target, at)
	if sandbox.CodeOf(err) != api.CodeFileExists {
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
	// Opening would follow a link.
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
