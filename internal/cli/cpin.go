package cli

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
)

// in copies into the sandbox.
func (cp *copying) in() (copied, error) {
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

func (cp *copying) inFile(info fs.FileInfo, kind string) (copied, error) {
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
	written, _, err := cp.c.Sandboxes.WriteFile(cp.ctx, to.ref, to.source, to.path, &seen{file, watch}, client.WriteOptions{Mode: info.Mode().Perm()})
	return copied{From: cp.here, To: to.String(), Tally: tarball.Tally{Files: 1, Bytes: written.Size}}, err
}

// seen is a file whose reading is watched. It can be read again from the start when an answer is lost.
type seen struct {
	*os.File
	watch tarball.Watch
}

// Read reads and tells.
func (s *seen) Read(p []byte) (int, error) {
	n, err := s.File.Read(p)
	s.watch(0, int64(n))
	return n, err
}

func (cp *copying) inFolder(kind string) (copied, error) {
	to := cp.there
	switch {
	case kind != "" && kind != api.FileDirectory:
		return copied{}, &hinted{fmt.Errorf("%s is a folder and %s is not", cp.here, clean(to.String())), "Name another DST, or remove what is there."}
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

// send packs a folder while it is being sent.
func (cp *copying) send(dir *os.Root, to place, watch tarball.Watch) (tarball.Tally, error) {
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

// errNotTaken is why packing ends when the server takes no more.
var errNotTaken = errors.New("the server takes no more")

// inArchive unpacks what comes in.
func (cp *copying) inArchive() (copied, error) {
	if isTerminal(cp.f.Stdin) {
		return copied{}, &usageError{"a tar is expected on stdin, and that is a terminal", fmt.Sprintf("Write: tar c FOLDER | berth cp - %s", cp.there)}
	}
	watch, end := cp.begin("stdin", 0)
	defer end()
	got, err := cp.c.Sandboxes.UploadArchive(cp.ctx, cp.there.ref, cp.there.source, cp.there.path, &counted{cp.f.Stdin, watch})
	return copied{From: "-", To: cp.there.String(), Tally: tarball.Tally{Files: got.Files, Folders: got.Folders, Links: got.Links, Bytes: got.Bytes}}, err
}

// counted is a reader that tells how much was read.
type counted struct {
	io.Reader
	watch tarball.Watch
}

// Read reads and tells.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.watch(0, int64(n))
	return n, err
}
