package fake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
)

const filesDir = "files"

// Filed is a Driver whose instances have files. They are directories of this machine and are removed with the
// instance.
type Filed struct{ *Driver }

var _ driver.Filer = (*Filed)(nil)

// Open opens dir like New. Instances have files if dir has a folder files/, see MakeFiles.
func Open(dir string, opts ...Option) (driver.Driver, error) {
	d, err := New(dir, opts...)
	if err != nil {
		return nil, err
	}
	switch _, err := os.Stat(filepath.Join(dir, filesDir)); {
	case err == nil:
		return &Filed{d}, nil
	case errors.Is(err, fs.ErrNotExist):
		return d, nil
	default:
		return nil, fmt.Errorf("open fake driver: %w", err)
	}
}

// MakeFiles makes Open return a Filed for dir, so that its instances have files.
func MakeFiles(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, filesDir), 0o700); err != nil {
		return fmt.Errorf("make the folder of files: %w", err)
	}
	return nil
}

// Files opens files.WorkingDir or files.HomeDir of an instance, in any phase.
func (d *Filed) Files(ctx context.Context, id driver.ID, root string) (files.FS, error) {
	if root != files.WorkingDir && root != files.HomeDir {
		return nil, fmt.Errorf("%w: no root %q", driver.ErrInvalid, root)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := d.read(id); err != nil {
		return nil, err
	}
	path := filepath.Join(d.filesPath(id), root)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make files of instance: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open files of instance: %w", err)
	}
	// The instance may have ended since the first read. MkdirAll has then made its directory again.
	if _, err := d.read(id); err != nil {
		_ = dir.Close()
		_ = os.RemoveAll(d.filesPath(id))
		return nil, err
	}
	opened, err := files.NewDir(dir, files.Owner{})
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return opened, nil
}

func (d *Driver) filesPath(id driver.ID) string { return filepath.Join(d.dir, filesDir, string(id)) }

// dropFiles removes the files of an ended instance. It moves them away first, so that no call can open them.
func (d *Driver) dropFiles(id driver.ID) error {
	gone := filepath.Join(d.dir, tmpDir, "files-"+string(id))
	err := os.Rename(d.filesPath(id), gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove files of instance: %w", err)
	}
	_ = os.RemoveAll(gone) // it may fail, because a call that opened the directory before can still write there
	return nil
}
