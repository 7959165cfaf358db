package docker

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Image packs programs of this machine and the libraries that they need into a tar archive. All keep their paths.
func Image(programs ...string) (io.Reader, error) {
	var out bytes.Buffer
	p := packer{tar: tar.NewWriter(&out), seen: map[string]bool{}}
	for _, program := range programs {
		if err := p.add(program); err != nil {
			return nil, fmt.Errorf("pack %s: %w", program, err)
		}
	}
	return &out, p.tar.Close()
}

type packer struct {
	tar  *tar.Writer
	seen map[string]bool
}

// add packs a file, its loader and its libraries under their paths, once.
func (p packer) add(path string) error {
	if p.seen[path] {
		return nil
	}
	p.seen[path] = true
	bytesOf, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(path, "/")
	if err := p.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(bytesOf)), Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := p.tar.Write(bytesOf); err != nil {
		return err
	}
	needed, err := needs(bytesOf)
	if err != nil {
		return err
	}
	for _, path := range needed {
		if err := p.add(path); err != nil {
			return err
		}
	}
	return nil
}

// needs returns the paths of the loader and the libraries that an ELF file names.
func needs(file []byte) (paths []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	if s := f.Section(".interp"); s != nil {
		text, err := s.Data()
		if err != nil {
			return nil, err
		}
		paths = append(paths, string(bytes.TrimRight(text, "\x00"))) // the loader
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, name := range libraries {
		if strings.HasPrefix(name, "ld-") {
			continue // the loader is already in the list
		}
		path, err := library(name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// library finds a library in the default directories of the loader.
func library(name string) (string, error) {
	for _, pattern := range []string{"/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib64", "/usr/lib64", "/lib", "/usr/lib"} {
		found, err := filepath.Glob(filepath.Join(pattern, name))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return slices.Min(found), nil
		}
	}
	return "", errors.New("library " + name + " is not in a usual place")
}
