package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

// unlinked writes the given number of mebibytes to a file that it has removed.
func unlinked(args []string) error {
	what, n, err := wordAndNumber(args)
	if err != nil {
		return err
	}
	path := filepath.Join(what, fmt.Sprintf("unlinked-%d", os.Getpid()))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		return err
	}
	return writeMebibytes(f, n)
}

// inodes makes the given number of empty files, and removes them.
func inodes(args []string) error {
	return withTempFolder(args, "inodes", func(dir string, n int) error {
		for i := range n {
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
				return err
			}
		}
		return nil
	})
}

// sparse makes the given number of sparse files of one gibibyte, and removes them. Each has data only at its end.
func sparse(args []string) error {
	signal.Ignore(syscall.SIGXFSZ) // a limit on file size then causes an error and does not end the process
	return withTempFolder(args, "sparse", func(dir string, n int) error {
		for i := range n {
			f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, 4096), 1<<30-4096)
			_ = f.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// withTempFolder calls do with a new folder and the number in the arguments, and removes the folder afterwards.
func withTempFolder(args []string, name string, do func(dir string, n int) error) error {
	what, n, err := wordAndNumber(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(what, name)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return do(dir, n)
}

// printMebibytes writes the given number of mebibytes to standard output.
func printMebibytes(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	return writeMebibytes(os.Stdout, n[0])
}
