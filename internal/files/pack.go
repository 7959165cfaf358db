package files

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Reserved is the directory of the workspace that holds agents' state.
const Reserved = ".berth"

// PackOptions configure an archive.
type PackOptions struct {
	Path     string // a directory, as Clean returns it
	Hidden   bool   // include the reserved directory; other names with a dot are always included
	MaxBytes int64  // limit for all files; zero: none
}

// Packed describes the contents of an archive, and what was left out.
type Packed struct {
	Entries      int
	Bytes        int64
	Skipped      int      // number of files that were left out
	SkippedNames []string // the first maxSkippedNames of them, with the reason
}

// maxSkippedNames is the maximum length of Packed.SkippedNames.
const maxSkippedNames = 100

// maxPackPath is the length in bytes of the longest path that is packed.
const maxPackPath = 64 << 10

// Pack writes a directory as a tar stream. Links are stored as links. A file with several names is stored once for each
// of them. Pack leaves out files that are never opened (pipes, sockets, devices, other users' files with more than one
// hard link), that vanish or become unreadable, or that are nested too deep. A file that shrinks during the read is
// padded with zeros. A comment at the end of the archive names all these files.
func Pack(ctx context.Context, fsys FS, w io.Writer, o PackOptions) (Packed, error) {
	p := &packer{PackOptions: o, ctx: ctx, fs: fsys, tar: tar.NewWriter(w)}
	if err := p.dir(o.Path, 0); err != nil {
		return p.Packed, err
	}
	if p.Skipped > 0 {
		note := &tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": p.comment()}}
		if err := p.tar.WriteHeader(note); err != nil {
			return p.Packed, fmt.Errorf("write comment: %w", err)
		}
	}
	if err := p.tar.Close(); err != nil {
		return p.Packed, fmt.Errorf("end archive: %w", err)
	}
	return p.Packed, nil
}

type packer struct {
	PackOptions
	Packed
	ctx context.Context
	fs  FS
	tar *tar.Writer
}

// dir packs the contents of one directory. It reads deep directories in smaller pieces, because each level keeps one
// piece in memory.
func (p *packer) dir(dir string, depth int) error {
	size := max(8192/(depth+1), 4)
	for after := ""; ; {
		entries, err := p.fs.ReadDir(p.ctx, dir, after, size)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := p.entry(e, depth); err != nil {
				return err
			}
		}
		if len(entries) < size {
			return nil
		}
		after = path.Base(entries[len(entries)-1].Path)
	}
}

func (p *packer) entry(e Info, depth int) error {
	switch {
	case e.Path == Reserved && !p.Hidden:
		return nil
	case len(e.Path) > maxPackPath:
		p.skip(e.Path, "nested too deep")
		return nil
	case e.Mode.IsDir():
		if err := p.header(e, tar.TypeDir, 0); err != nil {
			return err
		}
		return p.forgive(e.Path, p.dir(e.Path, depth+1))
	case e.Mode&fs.ModeSymlink != 0:
		return p.header(e, tar.TypeSymlink, 0)
	case e.Mode.IsRegular():
		return p.forgive(e.Path, p.file(e))
	}
	p.skip(e.Path, "not a plain file")
	return nil
}

// forgive records a file that cannot be read as skipped and returns nil. It returns other errors unchanged.
func (p *packer) forgive(name string, err error) error {
	code := fault.CodeOf(err)
	if err == nil || passable(err) != nil && code != api.CodeSpecialFile && code != api.CodeIsADirectory && code != api.CodeConflict {
		return err
	}
	p.skip(name, string(code))
	return nil
}

func (p *packer) skip(name, why string) {
	p.Skipped++
	if len(p.SkippedNames) < maxSkippedNames {
		p.SkippedNames = append(p.SkippedNames, fmt.Sprintf("%s (%s)", strings.ToValidUTF8(clip(below(p.Path, name)), "\uFFFD"), why))
	}
}

func (p *packer) comment() string {
	return fmt.Sprintf("%d left out: %s", p.Skipped, strings.ReplaceAll(strings.Join(p.SkippedNames, ", "), "\x00", ""))
}

func (p *packer) header(e Info, kind byte, size int64) error {
	h := &tar.Header{
		Typeflag: kind, Name: below(p.Path, e.Path), Size: size, Mode: int64(e.Mode.Perm()), Linkname: e.Target,
		ModTime: e.ModTime.Truncate(time.Second), Format: tar.FormatPAX,
	}
	if kind == tar.TypeDir {
		h.Name += "/"
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	p.Entries++
	return nil
}

func (p *packer) file(e Info) error {
	r, err := p.fs.Open(p.ctx, e.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	size := r.Info().Size
	if p.Bytes += size; p.MaxBytes > 0 && p.Bytes > p.MaxBytes {
		return fault.Errorf("pack folder", api.CodeTooLarge, "the files take more than %d bytes, from %q on", p.MaxBytes, clip(e.Path))
	}
	if err := p.header(r.Info(), tar.TypeReg, size); err != nil {
		return err
	}
	n, err := copyN(p.ctx, p.tar, r, size)
	if err == nil && n < size {
		p.skip(e.Path, "shrank while it was read")
		_, err = copyN(p.ctx, p.tar, zeros{}, size-n)
	}
	return err
}

// copyN copies at most n bytes and returns their number. It treats a read error as the end of the file.
func copyN(ctx context.Context, w io.Writer, r io.Reader, n int64) (done int64, err error) {
	buf := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buf)
	for done < n {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		k, failed := r.Read(buf[:min(int64(len(buf)), n-done)])
		if _, err := w.Write(buf[:k]); err != nil {
			return done, fmt.Errorf("write archive: %w", err)
		}
		done += int64(k)
		if failed != nil {
			return done, nil
		}
	}
	return done, nil
}

// zeros is an endless reader of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
