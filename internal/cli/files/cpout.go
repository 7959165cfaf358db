package files

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
	"github.com/berthdev/berth/internal/cli/ui"
)

// out copies out of the sandbox.
func (cp *copyJob) out() (copied, error) {
	kind, file, err := cp.kind(cp.there)
	switch {
	case err != nil:
		return copied{}, err
	case kind == "":
		return copied{}, ui.Hint(fmt.Errorf("there is no %s", ui.Clean(cp.there.String())), fmt.Sprintf("'berth files %s -R' lists what there is.", cp.there.ref))
	case cp.here == "-":
		return cp.outArchive(kind, file)
	case kind == api.FileDirectory:
		return cp.outFolder()
	}
	return cp.outFile(file)
}

// outFile copies one file to this machine.
func (cp *copyJob) outFile(file api.File) (copied, error) {
	to := cp.here
	if strings.HasSuffix(to, "/") || isFolder(to) {
		to = filepath.Join(to, cp.there.name())
	}
	from, err := cp.c.Sandboxes.ReadFile(cp.ctx, cp.there.ref, cp.there.source, cp.there.path, client.ReadOptions{})
	if err != nil {
		return copied{}, err
	}
	defer from.Close()
	dir, err := openFolder(filepath.Dir(to))
	if err != nil {
		return copied{}, err
	}
	defer dir.Close()
	watch, end := cp.begin(cp.there.String(), from.Size)
	defer end()
	n, err := tarball.WriteFile(cp.ctx, dir, filepath.Base(to), from, like(file), watch)
	return copied{From: cp.there.String(), To: to, Tally: tarball.Tally{Files: 1, Bytes: n}}, err
}

// like returns the permissions and modification time for the copy of a file. A copy of a link gets defaults, because
// file describes the link and not its target.
func like(file api.File) tarball.File {
	perm, err := strconv.ParseUint(file.Mode, 8, 16)
	if err != nil || file.Type != api.FileRegular {
		return tarball.File{Perm: 0o644}
	}
	return tarball.File{Perm: fs.FileMode(perm).Perm(), ModTime: file.ModifiedAt}
}

// openFolder opens a folder on this machine. It creates the folder if it is missing.
func openFolder(name string) (*os.Root, error) {
	if err := os.MkdirAll(name, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(name)
}

// outFolder downloads a folder as an archive and unpacks it.
func (cp *copyJob) outFolder() (copied, error) {
	to := cp.here
	if !cp.there.inside && (strings.HasSuffix(to, "/") || isFolder(to)) {
		to = filepath.Join(to, cp.there.name())
	}
	if info, err := os.Stat(to); err == nil && !info.IsDir() {
		return copied{}, ui.Hint(fmt.Errorf("%s is a folder and %s is not", ui.Clean(cp.there.String()), to), "Name another DST, or remove the existing one.")
	}
	from, err := cp.c.Sandboxes.DownloadArchive(cp.ctx, cp.there.ref, cp.there.source, cp.there.path, false)
	if err != nil {
		return copied{}, err
	}
	defer from.Close()
	dir, err := openFolder(to)
	if err != nil {
		return copied{}, err
	}
	defer dir.Close()
	watch, end := cp.begin(cp.there.String(), 0)
	defer end()
	tally, err := tarball.Unpack(cp.ctx, from, dir, watch)
	return copied{From: cp.there.String(), To: to, Tally: tally}, err
}

// outArchive writes an archive to stdout.
func (cp *copyJob) outArchive(kind string, file api.File) (copied, error) {
	if cp.a.Out.TTY {
		return copied{}, ui.Usage("a tar is not for a terminal", fmt.Sprintf("Write: berth cp %s - | tar tv, or > FILE; 'berth cat' prints a file.", cp.there))
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
	source := &watchedReader{from, watch}
	if kind != api.FileDirectory {
		return done, packOne(cp.a.Stdout, source, cp.there.name(), from.Size, like(file))
	}
	_, err = io.Copy(cp.a.Stdout, source)
	if n := from.Skipped(); err == nil && n > 0 {
		done.Left = []tarball.Left{{Why: fmt.Sprintf("%s left out; a comment in the tar names them", ui.Plural(n, "file was", "files were"))}}
	}
	return done, err
}

// packOne writes an archive with one file.
func packOne(to io.Writer, from io.Reader, name string, size int64, like tarball.File) error {
	w := tar.NewWriter(to)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: int64(like.Perm), ModTime: like.ModTime.Truncate(time.Second), Format: tar.FormatPAX})
	if err == nil {
		_, err = io.Copy(w, from)
	}
	return errors.Join(err, w.Close())
}
