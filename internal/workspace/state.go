package workspace

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// WriteState writes a manifest into the root of its tree, for people and older tools. The write is atomic, even if
// the machine crashes: the tree has the old file or the new one. WriteState does not wait until the new name is on the
// disk, because either file is correct: an old one makes the next sync compare more.
func WriteState(t Tree, text []byte) error {
	return t.Run(func(root int) error { return writeState(root, text) })
}

func writeState(root int, text []byte) (err error) {
	const temp = StateFile + ".tmp" // a fixed name, so that the next write replaces a leftover file
	if err := unix.Unlinkat(root, temp, 0); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "remove", Path: temp, Err: err}
	}
	fd, err := unix.Openat(root, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return &os.PathError{Op: "create", Path: temp, Err: err}
	}
	f := os.NewFile(uintptr(fd), temp)
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	var own, named unix.Stat_t
	if err == nil {
		err = errors.Join(unix.Fstat(fd, &own), unix.Fstatat(root, temp, &named, unix.AT_SYMLINK_NOFOLLOW))
	}
	if err == nil && own.Ino != named.Ino {
		err = errors.New("another process writes it")
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat(root, temp, root, StateFile)
	}
	if err != nil {
		_ = unix.Unlinkat(root, temp, 0)
		return &os.PathError{Op: "write", Path: StateFile, Err: err}
	}
	return nil
}

// HasState reports whether a file exists at the path of the state file.
func HasState(t Tree) (there bool, err error) {
	err = t.Run(func(root int) error {
		var st unix.Stat_t
		err := unix.Fstatat(root, StateFile, &st, unix.AT_SYMLINK_NOFOLLOW)
		if there = err == nil; gone(err) {
			return nil
		}
		return err
	})
	return there, err
}

// maxState is the maximum size in bytes of a state file that may come from inside the sandbox.
const maxState = 64 << 20

// ReadState reads the manifest in the root of a tree. The manifest is only a hint, because the sandbox can write
// it. ReadState returns nil if the file is missing and CodeBadManifest if it is invalid.
func ReadState(t Tree) (m *Manifest, err error) {
	err = t.Run(func(root int) error {
		f, st, err := openFile(root, StateFile)
		if gone(err) {
			return nil
		}
		if err != nil {
			return bad("open it: %w", err)
		}
		defer f.Close()
		if st.Size > maxState {
			return bad("it has %d bytes, more than %d", st.Size, maxState)
		}
		text, err := io.ReadAll(io.LimitReader(f, maxState))
		if err != nil {
			return bad("read it: %w", err)
		}
		m, err = Decode(text)
		return err
	})
	return m, err
}
