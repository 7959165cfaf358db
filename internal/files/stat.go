package files

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Stat describes a file or link.
func (d *Dir) Stat(ctx context.Context, path string) (info Info, err error) {
	err = d.at(ctx, "stat file", path, func(root int) error {
		fd, err := open(root, path, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		info, err = describe(fd, path)
		return err
	})
	return info, err
}

// describe returns the attributes of an open file. It does not resolve path again.
func describe(fd int, path string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Info{}, err
	}
	info := infoOf(path, &st)
	if info.Mode&fs.ModeSymlink != 0 {
		target, err := readlink(fd, "")
		info.Target = target
		return info, err
	}
	return info, nil
}

// readlink reads the text of the link name in dir, or of the link dir itself if name is empty.
func readlink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func infoOf(path string, st *unix.Stat_t) Info {
	return Info{
		Path: path, Mode: modeOf(st.Mode), Size: st.Size, ModTime: timeOf(st.Mtim),
		Tag: fmt.Sprintf("%x-%x-%x", st.Ino, st.Size, st.Ctim.Nano()),
	}
}

func modeOf(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for _, bit := range []struct {
		set  uint32
		mode fs.FileMode
	}{{unix.S_ISUID, fs.ModeSetuid}, {unix.S_ISGID, fs.ModeSetgid}, {unix.S_ISVTX, fs.ModeSticky}} {
		if mode&bit.set != 0 {
			m |= bit.mode
		}
	}
	return m | types[mode&unix.S_IFMT]
}

var types = map[uint32]fs.FileMode{
	unix.S_IFDIR: fs.ModeDir, unix.S_IFLNK: fs.ModeSymlink, unix.S_IFIFO: fs.ModeNamedPipe,
	unix.S_IFSOCK: fs.ModeSocket, unix.S_IFBLK: fs.ModeDevice, unix.S_IFCHR: fs.ModeDevice | fs.ModeCharDevice,
}

// timeOf converts a time and limits it to the years that JSON supports, because a file's owner can set any time.
func timeOf(ts unix.Timespec) time.Time {
	const first, last = -62135596800, 253402300799 // the years 1 and 9999
	sec, nsec := ts.Unix()
	return time.Unix(min(max(sec, first), last), nsec).UTC()
}

// openable returns an error for all files except regular files. It also refuses another user's file with more than one
// hard link: a user may have linked it here to make Berth act on it.
func (d *Dir) openable(op, path string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if st.Nlink > 1 && int64(st.Uid) != int64(d.as.uid()) {
			return specialFileError(op, path, "another user's file with further hard links")
		}
		return nil
	case unix.S_IFDIR:
		return unix.EISDIR
	case unix.S_IFLNK:
		return specialFileError(op, path, "a symbolic link")
	case unix.S_IFIFO:
		return specialFileError(op, path, "a pipe")
	case unix.S_IFSOCK:
		return specialFileError(op, path, "a socket")
	}
	return specialFileError(op, path, "a device")
}
