package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

const (
	smallFile   = 4 << 10
	tinyFile    = 200
	largeFiles  = 8
	folderShare = 2_401 // number of folders for 10,000 files, including the root
)

// makeTree makes a tree of files in folders of at most two levels. The same arguments always make the same tree.
func makeTree(root string, files int, size int64, folders int) error {
	dirs, err := makeFolders(root, folders)
	if err != nil {
		return err
	}
	seed := rand.NewChaCha8([32]byte{1})
	for i := range files {
		path := filepath.Join(dirs[i%len(dirs)], fmt.Sprintf("file-%06d.txt", i))
		if err := write(path, size, seed); err != nil {
			return err
		}
	}
	return nil
}

// makeFolders makes n folders, including the root, and returns them.
func makeFolders(root string, n int) ([]string, error) {
	const wide = 49
	dirs := []string{root}
	for left := n - 1; left > 0; left -= wide + 1 {
		above := filepath.Join(root, fmt.Sprintf("folder-%04d", len(dirs)))
		dirs = append(dirs, above)
		for i := range min(wide, left-1) {
			dirs = append(dirs, filepath.Join(above, fmt.Sprintf("part-%02d", i)))
		}
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// write writes a file of the given size. A small file has text that can be compressed, a large file has random bytes.
func write(path string, size int64, seed *rand.ChaCha8) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	var from io.Reader = seed
	if size <= smallFile {
		raw := make([]byte, (size+1)/2)
		_, _ = seed.Read(raw)
		from = strings.NewReader(fmt.Sprintf("%x", raw))
	}
	_, err = io.CopyN(f, from, size)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// edit changes the content of one file in a hundred, and of at least one. The sizes stay the same.
func edit(root string) error {
	seed := rand.NewChaCha8([32]byte(sum(rand.Uint64())))
	n := 0
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".sandbox-state") {
			return err
		}
		if n++; n%100 != 1 {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return write(path, info.Size(), seed)
	})
}

func sum(n uint64) []byte {
	h := sha256.Sum256(fmt.Append(nil, n))
	return h[:]
}

// sameTrees returns an error if two trees differ in names or in content.
func sameTrees(a, b string) error {
	n, err := compareTree(a, b)
	if err != nil {
		return err
	}
	m, err := compareTree(b, a)
	if err == nil && n != m {
		err = fmt.Errorf("%s has %d files and folders, %s has %d", a, n, b, m)
	}
	return err
}

// compareTree compares every file and folder of tree a with tree b, and returns the number of files and folders in a.
func compareTree(a, b string) (n int, err error) {
	err = filepath.WalkDir(a, func(path string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(d.Name(), ".sandbox-state") {
			return err
		}
		n++
		other := filepath.Join(b, strings.TrimPrefix(path, a))
		if d.IsDir() {
			_, err := os.Stat(other)
			return err
		}
		return sameFile(path, other)
	})
	return n, err
}

func sameFile(a, b string) error {
	was, err := digest(a)
	if err != nil {
		return err
	}
	is, err := digest(b)
	if err == nil && !bytes.Equal(was, is) {
		err = fmt.Errorf("%s is not what %s is", b, a)
	}
	return err
}

func digest(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}
