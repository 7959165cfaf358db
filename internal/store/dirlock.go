package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

const lockFile = "berth.lock"

// HostFile is the file in the data directory with the name of the host. Package auth makes it once the database was opened.
const HostFile = "host"

// dirLock is this process's lock on a data directory. The kernel releases it when the process ends. The pid in the
// file is only for error messages.
type dirLock struct{ file *os.File }

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, dirProblem(dir, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		_ = f.Close()
		return nil, lockedBy(dir, holderOf(path))
	case err != nil:
		_ = f.Close()
		return nil, dirProblem(dir, fmt.Errorf("lock %s: %w", path, err))
	}
	l := &dirLock{file: f}
	if err := l.sign(strconv.Itoa(os.Getpid())); err != nil {
		_ = l.release()
		return nil, dirProblem(dir, err)
	}
	return l, nil
}

func (l *dirLock) sign(text string) error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(text), 0)
	return err
}

// release unlocks the directory and keeps the file: without it, two processes could lock two files of one name.
func (l *dirLock) release() error {
	return errors.Join(l.sign(""), l.file.Close())
}

func lockedBy(dir string, pid int) error {
	who := "another process"
	if pid > 0 {
		who = fmt.Sprintf("process %d", pid)
	}
	return fault.Errorf("lock data directory", api.CodeDataDirLocked, "%s is in use by %s", dir, who)
}

// holderOf returns the holder's pid, or 0 if it is unknown. A holder writes its pid shortly after it locks the file.
// If the file is empty or has the pid of an ended process, holderOf reads it again for a short time.
func holderOf(path string) (pid int) {
	for range 20 {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0
		}
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		if pid > 0 && unix.Kill(pid, 0) != unix.ESRCH {
			return pid
		}
		time.Sleep(5 * time.Millisecond)
	}
	return pid
}
