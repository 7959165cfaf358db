package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/internal/store"
)

// The files kept in the data directory.
const (
	AdminKeyFile = "admin.key"
	SecretFile   = "secret.key"
	HostFile     = store.HostFile
)

// maxKeptBytes is the number of bytes that are read of a stored file.
const maxKeptBytes = 4 << 10

// keep returns the line in the named file of dir. If the file does not exist, keep creates it with the result of
// fresh and returns made = true. If several processes do so at once, one creates the file and the others read it.
func keep(dir, name string, fresh func() string) (line string, made bool, err error) {
	path := filepath.Join(dir, name)
	line, err = readKept(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return line, false, err
	}
	line = fresh()
	err = writeNew(dir, path, line)
	if errors.Is(err, fs.ErrExist) {
		line, err = readKept(path)
		return line, false, err
	}
	return line, err == nil, err
}

// readKept reads the line in a stored file and removes the file's permissions for other users.
func readKept(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := restrictPermissions(f); err != nil {
		return "", err
	}
	return readLine(f)
}

// errUnusable is the error of a path that is not a regular file, or of an empty file.
var errUnusable = errors.New("it cannot be used")

func readLine(f *os.File) (string, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxKeptBytes))
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(data))
	if line == "" {
		return "", fmt.Errorf("read %s: %w: it is empty", f.Name(), errUnusable)
	}
	return line, nil
}

func restrictPermissions(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("read %s: %w: it is not a file", f.Name(), errUnusable)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return f.Chmod(0o600)
}

// writeNew writes the line to path atomically. It returns fs.ErrExist if path exists. It uses a hard link because a
// rename would replace an existing file.
func writeNew(dir, path, line string) error {
	return writeViaTemp(dir, line, func(temp string) error { return os.Link(temp, path) })
}

// replace writes the line to path atomically and replaces an existing file.
func replace(dir, path, line string) error {
	return writeViaTemp(dir, line, func(temp string) error { return os.Rename(temp, path) })
}

// writeViaTemp writes the line to a temporary file in dir and calls put to move or link the file to its path.
func writeViaTemp(dir, line string, put func(temp string) error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*") // with permissions 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(line + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := put(f.Name()); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// LoadHost returns the name of the host that the data directory belongs to; local sandboxes are pinned to it. The name
// is created once, from the machine's name and random characters, and stored in the data directory. So a renamed
// machine keeps its sandboxes, and another machine of the same name does not get them.
func LoadHost(dataDir string) (string, error) {
	name, _, err := keep(dataDir, HostFile, freshHost)
	if err != nil {
		return "", keepError("name this machine", dataDir, err)
	}
	return name, nil
}

func freshHost() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "machine"
	}
	return name + "-" + strings.ToLower(rand.Text()[:6])
}
