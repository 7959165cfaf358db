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
	"github.com/berthdev/berth/internal/sandbox"
)

const lockFile = "berth.lock"

// dirLock is this process's hold on a data directory. The kernel frees it when the process ends,
// however it ends; the pid in the file is for people only.
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

// release leaves the file: removing it would let two processes lock two files of one name.
func (l *dirLock) release() error {
	return errors.Join(l.sign(""), l.file.Close())
}

func lockedBy(dir string, pid int) error {
	who := "another process"
	if pid > 0 {
		who = fmt.Sprintf("process %d", pid)
	}
	return sandbox.Errorf("lock data directory", api.CodeDataDirLocked, "%s is in use by %s", dir, who)
}

// holderOf reads the holder's pid, 0 if it cannot be known. A holder that has just locked the file
// may not have signed it yet, so an empty file, or one signed by a process that is gone, is read
// again for a moment.
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
