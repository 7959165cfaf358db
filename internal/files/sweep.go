package files

import (
	"context"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// IsUpload reports whether name is the name of a temporary file of a write: tmpPrefix and 26 of a-z and 2-7. Other
// names with this prefix are ordinary.
func IsUpload(name string) bool {
	id, ok := strings.CutPrefix(name, tmpPrefix)
	return ok && len(id) == tmpLetters && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// tmpLetters is the length of the random part of a temporary name, which is from rand.Text.
const tmpLetters = 26

// maxSweep limits the number of directories that one sweep reads.
const maxSweep = 1_000_000

// Sweep removes the temporary files of interrupted writes and returns their number. It keeps files that are locked,
// because their writer is still running, and files that changed after the time before. It follows no links and skips
// unreadable directories.
func (d *Dir) Sweep(ctx context.Context, before time.Time) (removed int, err error) {
	todo := []string{""}
	for looked := 0; len(todo) > 0 && looked < maxSweep; looked++ {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		var below []string
		err := d.change(ctx, "sweep folder", dir, func(root int) error {
			more, n, err := sweepDir(root, dir, before)
			below, removed = more, removed+n
			return err
		})
		if passable(err) != nil {
			return removed, err
		}
		todo = append(todo, below...)
	}
	return removed, nil
}

// sweepDir sweeps one directory and returns its subdirectories.
func sweepDir(root int, dir string, before time.Time) (below []string, removed int, err error) {
	fd, err := openDirNoLinks(root, dir)
	if err != nil {
		return nil, 0, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			name := join(dir, e.Name())
			switch {
			case e.IsDir() && len(name) <= MaxPath:
				below = append(below, name)
			case e.Type().IsRegular() && IsUpload(e.Name()) && sweepOne(fd, e.Name(), before):
				removed++
			}
		}
		if err == io.EOF || len(entries) == 0 {
			return below, removed, nil
		}
		if err != nil {
			return below, removed, err
		}
	}
}

// openDirNoLinks opens a directory by a path that contains no link.
func openDirNoLinks(root int, dir string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: beneath | unix.RESOLVE_NO_SYMLINKS,
	}
	if dir == "" {
		dir = "."
	}
	return unix.Openat2(root, path.Clean(dir), &how)
}

// sweepOne removes a temporary file if its writer has ended. It reports whether it removed the file.
func sweepOne(dir int, name string, before time.Time) bool {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || !time.Unix(st.Ctim.Unix()).Before(before) {
		return false
	}
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	return unix.Unlinkat(dir, name, 0) == nil
}
