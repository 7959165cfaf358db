package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const mebibyte = 1 << 20

// fork has so many processes at once, and ends them.
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

// memory uses so many mebibytes at once.
func memory(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	data, err := unix.Mmap(-1, 0, n[0]*mebibyte, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < len(data); i += os.Getpagesize() {
		data[i] = 1
	}
	return nil
}

// fill writes so many mebibytes into a file.
func fill(args []string) error {
	w, err := words(args, 2)
	if err != nil {
		return err
	}
	n, err := number(w[1:], 1)
	if err != nil {
		return err
	}
	f, err := os.Create(w[0])
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, mebibyte)
	for range n[0] {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// descriptors has so many files open at once; with 0, as many as it gets.
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

// swap lets a directory and a link change places without end: the one has a file of its own, the other
// leads to where a file of the same name is not for it.
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
