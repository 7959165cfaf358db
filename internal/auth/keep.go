package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The files kept in the data directory.
const (
	AdminKeyFile = "admin.key"
	SecretFile   = "secret.key"
	HostFile     = "host"
)

// mostKept bounds what is read of a kept file: nobody's secret is longer.
const mostKept = 4 << 10

// keep returns the one line in the named file of dir. Where there is no such file, it writes what
// fresh returns and reports that it was made. Of several processes that find no file at once, one
// writes it and the others read that.
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

// readKept reads a kept file and takes it away from everybody but its owner.
func readKept(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := tighten(f); err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, mostKept))
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(data))
	if line == "" {
		return "", fmt.Errorf("read %s: the file is empty; remove it to have a new one made", path)
	}
	return line, nil
}

func tighten(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("read %s: it is not a file; remove it to have a new one made", f.Name())
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return f.Chmod(0o600)
}

// writeNew writes the line to path, whole or not at all, and only if nothing is there: the error is
// then fs.ErrExist. The link is what makes both true at once.
func writeNew(dir, path, line string) error {
	return viaTemp(dir, line, func(temp string) error { return os.Link(temp, path) })
}

// replace writes the line to path, whole or not at all, whatever was there.
func replace(dir, path, line string) error {
	return viaTemp(dir, line, func(temp string) error { return os.Rename(temp, path) })
}

func viaTemp(dir, line string, put func(temp string) error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*") // 0600
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
