package cli

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/tarball"
)

// out copies out of the sandbox.
func (cp *copying) out() (copied, error) {
	kind, file, err := cp.kind(cp.there)
	switch {
	case err != nil:
		return copied{}, err
	case kind == "":
		return copied{}, &hinted{fmt.Errorf("there is no %s", clean(cp.there.String())), fmt.Sprintf("'berth files %s -R' lists what there is.", cp.there.ref)}
	case cp.here == "-":
		return cp.outArchive(kind, file)
	case kind == api.FileDirectory:
		return cp.outFolder()
	}
	return cp.outFile(file)
}

// outFile writes one file.
func (cp *copying) outFile(file api.File) (copied, error) {
	to := cp.here
	if strings.HasSuffix(to, "/") || isFolder(to) {
		to = filepath.Join(to, cp.there.name())
	}
	from, err := cp.c.Sandboxes.ReadFile(cp.ctx, cp.there.ref, cp.there.source, cp.there.path, client.ReadOptions{})
	if err != nil {
		return copied{}, err
	}
	defer from.Close()
	dir, err := folderAt(filepath.Dir(to))
	if err != nil {
		return copied{}, err
	}
	defer dir.Close()
	watch, end := cp.begin(cp.there.String(), from.Size)
	defer end()
	n, err := tarball.WriteFile(cp.ctx, dir, filepath.Base(to), from, like(file), watch)
	return copied{From: cp.there.String(), To: to, Tally: tarball.Tally{Files: 1, Bytes: n}}, err
}

// like is how a file is that was described. Of a link, only what it leads to counts, and that was not.
func like(file api.File) tarball.File {
	perm, err := strconv.ParseUint(file.Mode, 8, 16)
	if err != nil || file.Type != api.FileRegular {
		return tarball.File{Perm: 0o644}
	}
	return tarball.File{Perm: fs.FileMode(perm).Perm(), ModTime: file.ModifiedAt}
}

// folderAt opens a folder of this machine, and makes it if it is missing.
func folderAt(name string) (*os.Root, error) {
	if err := os.MkdirAll(name, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(name)
}

// outFolder unpacks a folder.
func (cp *copying) outFolder() (copied, error) {
	to := cp.here
	if !cp.there.inside && (strings.HasSuffix(to, "/") || isFolder(to)) {
		to = filepath.Join(to, cp.there.name())
	}
	if info, err := os.Stat(to); err == nil && !info.IsDir() {
		return copied{}, &hinted{fmt.Errorf("%s is a folder and %s is not", clean(cp.there.String()), to), "Name another DST, or remove what is there."}
	}
	from, err := cp.c.Sandboxes.DownloadArchive(cp.ctx, cp.there.ref, cp.there.source, cp.there.path, false)
	if err != nil {
		return copied{}, err
	}
	defer from.Close()
	dir, err := folderAt(to)
	if err != nil {
		return copied{}, err
	}
	defer dir.Close()
	watch, end := cp.begin(cp.there.String(), 0)
	defer end()
	tally, err := tarball.Unpack(cp.ctx, from, dir, watch)
	return copied{From: cp.there.String(), To: to, Tally: tally}, err
}

// outArchive writes a tar to stdout.
func (cp *copying) outArchive(kind string, file api.File) (copied, error) {
	if cp.f.out.tty {
		return copied{}, &usageError{"a tar is not for a terminal", fmt.Sprintf("Write: berth cp %s - | tar tv, or > FILE; 'berth cat' prints a file.", cp.there)}
	}
	done := copied{From: cp.there.String(), To: "-"}
	var from *client.Download
	var err error
	if kind == api.FileDirectory {
		from, err = cp.c.Sandboxes.DownloadArchive(cp.ctx, cp.there.ref, cp.there.source, cp.there.path, false)
	} else {
		from, err = cp.c.Sandboxes.ReadFile(cp.ctx, cp.there.ref, cp.there.source, cp.there.path, client.ReadOptions{})
	}
	if err != nil {
		return done, err
	}
	defer from.Close()
	watch, end := cp.begin(cp.there.String(), max(from.Size, 0))
	defer end()
	source := &counted{from, watch}
	if kind != api.FileDirectory {
		return done, packOne(cp.f.Stdout, source, cp.there.name(), from.Size, like(file))
	}
	_, err = io.Copy(cp.f.Stdout, source)
	if n := from.Skipped(); err == nil && n > 0 {
		done.Left = []tarball.Left{{Why: fmt.Sprintf("%s left out; a comment in the tar names them", plural(n, "file was", "files were"))}}
	}
	return done, err
}

// packOne writes a tar of one file.
func packOne(to io.Writer, from io.Reader, name string, size int64, like tarball.File) error {
	w := tar.NewWriter(to)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: int64(like.Perm), ModTime: like.ModTime.Truncate(time.Second), Format: tar.FormatPAX})
	if err == nil {
		_, err = io.Copy(w, from)
	}
	return errors.Join(err, w.Close())
}
