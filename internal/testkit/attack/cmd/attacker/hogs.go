package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const mebibyte = 1 << 20

// fork starts the given number of processes, and then ends them.
func fork(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	for i := range n[0] {
		cmd := exec.Command("/bin/sleep", "60")
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	return nil
}

// mapMebibytes maps the given number of mebibytes of memory.
func mapMebibytes(args []string) ([]byte, error) {
	n, err := number(args, 1)
	if err != nil {
		return nil, err
	}
	return unix.Mmap(-1, 0, n[0]*mebibyte, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// memory writes to each page of the given number of mebibytes.
func memory(args []string) error {
	data, err := mapMebibytes(args)
	if err != nil {
		return err
	}
	for i := 0; i < len(data); i += os.Getpagesize() {
		data[i] = 1
	}
	return nil
}

// lock locks the given number of mebibytes in memory.
func lock(args []string) error {
	data, err := mapMebibytes(args)
	if err != nil {
		return err
	}
	return unix.Mlock(data)
}

// fill writes the given number of mebibytes into a file.
func fill(args []string) error {
	what, n, err := wordAndNumber(args)
	if err != nil {
		return err
	}
	f, err := os.Create(what)
	if err != nil {
		return err
	}
	defer f.Close()
	return writeMebibytes(f, n)
}

func writeMebibytes(f *os.File, n int) error {
	block := make([]byte, mebibyte)
	for range n {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// descriptors opens the given number of files at once. With 0 it opens as many as it can and keeps them open.
func descriptors(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	for i := 0; n[0] == 0 || i < n[0]; i++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			fmt.Println(i, "are open")
			if n[0] == 0 {
				return hold(nil)
			}
			return err
		}
	}
	return nil
}

// swap exchanges a directory and a symbolic link in a loop. The directory has a file named "file". The link leads to
// another directory, whose files must not be reachable.
func swap(args []string) error {
	w, err := words(args, 2)
	if err != nil {
		return err
	}
	place, target := w[0], w[1]
	link, folder := place+".link", place+".folder"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "file"), []byte("own"), 0o644); err != nil {
		return err
	}
	if err := os.Symlink(target, link); err != nil {
		return err
	}
	if err := os.Rename(folder, place); err != nil {
		return err
	}
	fmt.Println("swapping")
	for {
		if err := unix.Renameat2(unix.AT_FDCWD, place, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
			return err
		}
	}
}
