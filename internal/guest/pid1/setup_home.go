package pid1

import (
	"errors"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// agentID is the uid and gid of the agent.
const agentID = 1000

// homes makes the agent's directories. It always sets their owner, which also copies them to the upper layer. The
// server looks there for them while the instance is stopped.
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
		return nil // the agent may have changed the mode
	}
	return failed("chmod", unix.Fchmod(dir, 0o755))
}

// etc writes config.Etc and adds the user agent if it is missing. Root in the instance may have replaced files by links
// or special files: etc skips these.
func (w *world) etc() error {
	for _, f := range w.config.Etc {
		if err := ignoreIrregular(w.write(f)); err != nil {
			return failed(f.Path, err)
		}
	}
	for _, l := range userLines {
		if err := ignoreIrregular(w.ensureLine(l.path, l.prefix, l.line)); err != nil {
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

// maxUsers is the maximum size in bytes of /etc/passwd and /etc/group. Larger files are skipped.
const maxUsers = 1 << 20

// ensureLine appends line to the file path unless a line of the file begins with prefix. It makes a missing file.
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

// readUsers reads /etc/passwd or /etc/group. It opens the file read-only: opening it for writing would copy it to the
// upper layer and wait for the disk.
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

// ignoreIrregular returns nil for the errors of opening a link, a directory or a special file.
func ignoreIrregular(err error) error {
	for _, pass := range []error{unix.ELOOP, unix.ENOTDIR, unix.EISDIR, unix.ENXIO, unix.EACCES} {
		if errors.Is(err, pass) {
			return nil
		}
	}
	return err
}
