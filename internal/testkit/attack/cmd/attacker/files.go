package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxRead is the maximum number of bytes that are read from a file.
const maxRead = 1 << 20

// read prints the contents of the files that match the patterns. It fails if it could read no byte.
func read(patterns []string) error {
	why := errors.New("no such file")
	some := 0
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return errUsage
		}
		for _, path := range paths {
			data, err := contents(path)
			if err != nil {
				why = err
			}
			fmt.Printf("%s", data)
			some += len(data)
		}
	}
	if some > 0 {
		return nil
	}
	return why
}

var errEmpty = errors.New("it is empty")

func contents(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRead))
	if len(data) == 0 && err == nil {
		err = errEmpty
	}
	return data, err
}

// list prints the names in a directory.
func list(args []string) error {
	for _, path := range args {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			fmt.Println(e.Name())
		}
	}
	return nil
}

// link prints the targets of symbolic links.
func link(args []string) error {
	for _, path := range args {
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		fmt.Println(target)
	}
	return nil
}

// rewrite writes the present content of each file to it again. This changes nothing but needs permission to write.
func rewrite(args []string) error {
	for _, path := range args {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if len(data) == 0 {
			data = []byte("\n")
		}
		if _, err := f.Write(data); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// open opens files for reading without reading them.
func open(args []string) error {
	for _, path := range args {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// search looks for the lines of its standard input in the files and links below the roots, and prints the paths. The
// lines are not arguments, because the roots may include /proc, where search would find its own arguments.
func search(roots []string) error {
	var needles []string
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		needles = append(needles, in.Text())
	}
	if len(needles) == 0 {
		return errUsage
	}
	found, looked := false, 0
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			text := contentOrTarget(path, d)
			looked++
			for _, needle := range needles {
				if strings.Contains(text, needle) {
					fmt.Printf("%q is in %s\n", needle, path)
					found = true
				}
			}
			return nil
		})
	}
	if !found {
		return fmt.Errorf("it is in none of %d files", looked)
	}
	return nil
}

// contentOrTarget returns the content of a file or the target of a link.
func contentOrTarget(path string, d fs.DirEntry) string {
	switch {
	case d.Type()&fs.ModeSymlink != 0:
		target, _ := os.Readlink(path)
		return target
	case d.Type().IsRegular():
		data, _ := contents(path)
		return string(data)
	}
	return ""
}

// handle opens a file by its file handle on the host, through any of the mounts, and prints the file.
func handle(args []string) error {
	if len(args) < 3 {
		return errUsage
	}
	kind, err1 := strconv.ParseInt(args[0], 10, 32)
	raw, err2 := hex.DecodeString(args[1])
	if err1 != nil || err2 != nil {
		return errUsage
	}
	why := errUsage
	for _, mount := range args[2:] {
		dir, err := unix.Open(mount, unix.O_RDONLY, 0)
		if err != nil {
			why = err
			continue
		}
		fd, err := unix.OpenByHandleAt(dir, unix.NewFileHandle(int32(kind), raw), unix.O_RDONLY)
		if err != nil {
			why = err
			continue
		}
		_, err = io.Copy(os.Stdout, os.NewFile(uintptr(fd), "handle"))
		return err
	}
	return why
}

// escapeChroot enters a chroot and leaves it again by a second chroot below the working directory. Then it reads a file.
func escapeChroot(args []string) error {
	w, err := words(args, 2)
	if err != nil {
		return err
	}
	const below = "below"
	if err := os.MkdirAll(filepath.Join(w[0], below), 0o755); err != nil {
		return err
	}
	if err := errors.Join(os.Chdir(w[0]), unix.Chroot(".")); err != nil {
		return err
	}
	if err := unix.Chroot(below); err != nil { // the working directory is now outside the root
		return err
	}
	for range 64 {
		if err := os.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return read(w[1:])
}

// device makes a device node and reads from it.
func device(args []string) error {
	w, err := words(args, 4)
	if err != nil {
		return err
	}
	mode, known := map[string]uint32{"block": unix.S_IFBLK, "character": unix.S_IFCHR}[w[0]]
	major, err1 := strconv.ParseUint(w[1], 10, 32)
	minor, err2 := strconv.ParseUint(w[2], 10, 32)
	if !known || err1 != nil || err2 != nil {
		return errUsage
	}
	path := filepath.Join(w[3], "device")
	if err := unix.Mknod(path, mode|0o600, int(unix.Mkdev(uint32(major), uint32(minor)))); err != nil {
		return err
	}
	defer os.Remove(path)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	data := make([]byte, 4096)
	n, err := f.Read(data)
	fmt.Printf("%s\n", data[:n])
	return err
}

// whiteout makes a whiteout: the device node with which an overlay file system marks a deleted name.
func whiteout(args []string) error {
	w, err := words(args, 1)
	if err != nil {
		return err
	}
	path := filepath.Join(w[0], "whiteout")
	if err := unix.Mknod(path, unix.S_IFCHR, 0); err != nil {
		return err
	}
	return os.Remove(path)
}

// opaque sets the attribute with which an overlay file system marks a directory that hides the one in the lower layer.
func opaque(args []string) error {
	w, err := words(args, 1)
	if err != nil {
		return err
	}
	path := filepath.Join(w[0], "opaque")
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	defer os.Remove(path)
	return unix.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0)
}
