package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/tarball"
	"github.com/berthdev/berth/internal/cli/ui"
)

// in copies into the sandbox.
func (cp *copyJob) in() (copied, error) {
	if cp.here == "-" {
		return cp.inArchive()
	}
	info, err := os.Stat(cp.here)
	if err != nil {
		return copied{}, err
	}
	kind, _, err := cp.kind(cp.there)
	if err != nil {
		return copied{}, err
	}
	switch {
	case info.IsDir():
		return cp.inFolder(kind)
	case !info.Mode().IsRegular():
		return copied{}, fmt.Errorf("%s is neither a file nor a folder", cp.here)
	}
	return cp.inFile(info, kind)
}

func (cp *copyJob) inFile(info fs.FileInfo, kind string) (copied, error) {
	to := cp.there
	if kind == api.FileDirectory || to.folder {
		to = to.below(filepath.Base(cp.here))
	}
	file, err := os.Open(cp.here)
	if err != nil {
		return copied{}, err
	}
	defer file.Close()
	watch, end := cp.begin(cp.here, info.Size())
	defer end()
	watch(1, 0)
	written, _, err := cp.c.Sandboxes.WriteFile(cp.ctx, to.ref, to.source, to.path, &watchedFile{file, watch}, client.WriteOptions{Mode: info.Mode().Perm()})
	return copied{From: cp.here, To: to.String(), Tally: tarball.Tally{Files: 1, Bytes: written.Size}}, err
}

// watchedFile is a file that reports the bytes read. The client can read it again from the start when a response is
// lost.
type watchedFile struct {
	*os.File
	watch tarball.Watch
}

// Read reads from the file and reports the bytes.
func (s *watchedFile) Read(p []byte) (int, error) {
	n, err := s.File.Read(p)
	s.watch(0, int64(n))
	return n, err
}

func (cp *copyJob) inFolder(kind string) (copied, error) {
	to := cp.there
	switch {
	case kind != "" && kind != api.FileDirectory:
		return copied{}, ui.Hint(fmt.Errorf("%s is a folder and %s is not", cp.here, ui.Clean(to.String())), "Name another DST, or remove the existing one.")
	case !endsInDot(cp.here) && (kind != "" || to.folder):
		whole, err := filepath.Abs(cp.here)
		if err != nil {
			return copied{}, err
		}
		to = to.below(filepath.Base(whole))
	}
	dir, err := os.OpenRoot(cp.here)
	if err != nil {
		return copied{}, err
	}
	defer dir.Close()
	_, total, err := tarball.Measure(cp.ctx, dir)
	if err != nil {
		return copied{}, err
	}
	watch, end := cp.begin(cp.here, total)
	defer end()
	tally, err := cp.send(dir, to, watch)
	return copied{From: cp.here, To: to.String(), Tally: tally}, err
}

// send sends a folder as an archive. It packs the folder while sending.
func (cp *copyJob) send(dir *os.Root, to sandboxPath, watch tarball.Watch) (tarball.Tally, error) {
	r, w := io.Pipe()
	var tally tarball.Tally
	packed := make(chan error, 1)
	go func() {
		var err error
		tally, err = tarball.Pack(cp.ctx, w, dir, watch)
		_ = w.CloseWithError(err)
		packed <- err
	}()
	_, err := cp.c.Sandboxes.UploadArchive(cp.ctx, to.ref, to.source, to.path, r)
	_ = r.CloseWithError(errNotTaken)
	if failed := <-packed; failed != nil && !errors.Is(failed, errNotTaken) {
		return tally, failed
	}
	return tally, err
}

// errNotTaken ends the packing after the server stopped reading.
var errNotTaken = errors.New("the server takes no more")

// inArchive sends the archive from stdin, which the server unpacks.
func (cp *copyJob) inArchive() (copied, error) {
	if ui.IsTerminal(cp.a.Stdin) {
		return copied{}, ui.Usage("a tar is expected on stdin, and that is a terminal", fmt.Sprintf("Write: tar c FOLDER | berth cp - %s", cp.there))
	}
	watch, end := cp.begin("stdin", 0)
	defer end()
	got, err := cp.c.Sandboxes.UploadArchive(cp.ctx, cp.there.ref, cp.there.source, cp.there.path, &watchedReader{cp.a.Stdin, watch})
	return copied{From: "-", To: cp.there.String(), Tally: tarball.Tally{Files: got.Files, Folders: got.Folders, Links: got.Links, Bytes: got.Bytes}}, err
}

// watchedReader is a reader that reports the bytes read.
type watchedReader struct {
	io.Reader
	watch tarball.Watch
}

// Read reads and reports the bytes.
func (c *watchedReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.watch(0, int64(n))
	return n, err
}
