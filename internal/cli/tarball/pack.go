package tarball

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Measure returns the number and size of the files that Pack would write.
func Measure(ctx context.Context, dir *os.Root) (files int, bytes int64, err error) {
	err = walk(ctx, dir, func(_ string, info fs.FileInfo) error {
		if info.Mode().IsRegular() {
			files++
			bytes += info.Size()
		}
		return nil
	})
	return files, bytes, err
}

// Pack writes the folder as a tar with relative names. It includes only files, folders and links.
func Pack(ctx context.Context, to io.Writer, dir *os.Root, watch Watch) (Tally, error) {
	p := &packer{ctx: ctx, dir: dir, tar: tar.NewWriter(to), watch: watch}
	if err := walk(ctx, dir, p.add); err != nil {
		return p.Tally, err
	}
	return p.Tally, p.tar.Close()
}

// walk visits everything below the folder. It does not follow links.
func walk(ctx context.Context, dir *os.Root, visit func(name string, info fs.FileInfo) error) error {
	return fs.WalkDir(dir.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case name == ".":
			return nil
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return err
		}
		return visit(name, info)
	})
}

type packer struct {
	Tally
	ctx   context.Context
	dir   *os.Root
	tar   *tar.Writer
	watch Watch
}

func (p *packer) add(name string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		p.Folders++
		return p.header(name+"/", info, tar.TypeDir, "")
	case mode&fs.ModeSymlink != 0:
		target, err := p.dir.Readlink(name)
		if err != nil {
			return err
		}
		p.Links++
		return p.header(name, info, tar.TypeSymlink, target)
	case mode.IsRegular():
		return p.file(name)
	}
	p.leaveOut(name, "not a file, folder or link")
	return nil
}

func (p *packer) header(name string, info fs.FileInfo, kind byte, target string) error {
	h := &tar.Header{
		Typeflag: kind, Name: name, Linkname: target, Mode: int64(info.Mode().Perm()),
		ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatPAX,
	}
	if kind == tar.TypeReg {
		h.Size = info.Size()
	}
	return p.tar.WriteHeader(h)
}

// file adds a file with the size that it had when it was opened. O_NONBLOCK keeps the open from blocking if the file
// was replaced by a pipe.
func (p *packer) file(name string) error {
	file, err := p.dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		p.leaveOut(name, "not a file, folder or link")
		return nil
	}
	if err := p.header(name, info, tar.TypeReg, ""); err != nil {
		return err
	}
	p.Files++
	p.watch.report(1, 0)
	n, err := io.Copy(p.tar, &meter{p.ctx, io.LimitReader(file, info.Size()), p.watch})
	p.Bytes += n
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s became shorter while it was copied", name)
	}
	return err
}

// meter reports the bytes read through it. It returns an error after the context ended.
type meter struct {
	ctx   context.Context
	from  io.Reader
	watch Watch
}

func (m *meter) Read(p []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	n, err := m.from.Read(p)
	m.watch.report(0, int64(n))
	return n, err
}
