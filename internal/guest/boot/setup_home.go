package boot

import (
	"errors"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// agentID is the uid and gid of the agent.
const agentID = 1000

// homes makes the agent's directories. Changing their owner, even to what it is, also puts them in the
// upper layer, where the server looks for them while the instance is stopped.
func (w *world) homes() error {
	workdir, home := w.config.Workdir, w.config.Home
	if workdir == "" {
		workdir = "/workspace"
	}
	if home == "" {
		home = "/home/agent"
	}
	for _, path := range []string{workdir, home} {
		if err := w.ownDir(path); err != nil {
			return failed(path, err)
		}
	}
	return nil
}

func (w *world) ownDir(path string) error {
	dir, err := ensureDir(w.root, path, 0o755)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	if err := unix.Fchown(dir, agentID, agentID); err != nil {
		return failed("chown", err)
	}
	if st.Uid == agentID {
		return nil // the mode is the agent's own choice
	}
	return failed("chmod", unix.Fchmod(dir, 0o755))
}

// etc writes the server's files and sees to it that there is a user called agent. Whoever is root in the
// instance may have put anything there: what is no plain file in plain directories is left alone.
func (w *world) etc() error {
	for _, f := range w.config.Etc {
		if err := passOver(w.write(f)); err != nil {
			return failed(f.Path, err)
		}
	}
	for _, l := range userLines {
		if err := passOver(w.ensureLine(l.path, l.prefix, l.line)); err != nil {
			return failed(l.path, err)
		}
	}
	return nil
}

var userLines = []struct{ path, prefix, line string }{
	{"/etc/passwd", "agent:", "agent:x:1000:1000:agent:/home/agent:/bin/sh\n"},
	{"/etc/group", "agent:", "agent:x:1000:\n"},
}

func (w *world) write(f wire.EtcFile) error {
	dir, name, err := parentOf(w.root, f.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if f.Always {
		if err := unix.Unlinkat(dir, name, 0); err != nil && err != unix.ENOENT {
			return err
		}
	}
	err = createFile(dir, name, f.Mode, f.Data)
	if err == unix.EEXIST && !f.Always {
		return nil
	}
	return err
}

// maxUsers bounds how much of a file of users is read: more is not one.
const maxUsers = 1 << 20

// ensureLine appends a line to a file of users unless one begins with prefix.
func (w *world) ensureLine(path, prefix, line string) error {
	dir, name, err := parentOf(w.root, path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	data, err := readUsers(dir, name)
	if err == unix.ENOENT {
		return createFile(dir, name, 0o644, []byte(line))
	}
	if err != nil || hasLine(data, prefix) {
		return err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		line = "\n" + line
	}
	return appendLine(dir, name, line)
}

const userFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// readUsers reads a file of users. Opening it for writing would copy it to the upper layer and wait until
// it is on the disk.
func readUsers(dir int, name string) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|userFlags, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxUsers {
		return nil, unix.ENXIO
	}
	data := make([]byte, st.Size)
	n, err := unix.Pread(fd, data, 0)
	return data[:max(n, 0)], err
}

func appendLine(dir int, name, line string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_APPEND|userFlags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return writeAll(fd, []byte(line))
}

// passOver is nil for what a link, a directory or a special file answers.
func passOver(err error) error {
	for _, pass := range []error{unix.ELOOP, unix.ENOTDIR, unix.EISDIR, unix.ENXIO, unix.EACCES} {
		if errors.Is(err, pass) {
			return nil
		}
	}
	return err
}
