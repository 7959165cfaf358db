package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
)

// lockName is the name of the lock file in a directory. Berth and other tools lock it during a sync.
const lockName = StateFile + ".lock"

// lockEvery is the interval between attempts to take a held lock. A blocking lock call could not be cancelled.
const lockEvery = 100 * time.Millisecond

// dirLock is the right to sync a directory. The kernel releases it when the process ends in any way. The text in
// the file is for people.
type dirLock struct{ file *os.File }

// lockDir takes the lock. Without Wait it returns CodeBusy if another process holds the lock.
func lockDir(ctx context.Context, dir string, o LocalOptions) (*dirLock, error) {
	file, err := openLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, NoDirectory(dir, err)
	}
	l := &dirLock{file}
	if err := l.take(ctx, dir, o); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	host, _ := os.Hostname()
	l.sign(fmt.Sprintf("process %d on %s\n", os.Getpid(), host))
	return l, nil
}

// openLock opens the lock file. It refuses links and special files.
func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, notPlain(path)
	case err != nil:
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(notPlain(path), file.Close())
	}
	return file, nil
}

// take locks the file, or waits for the lock if Wait is set.
func (l *dirLock) take(ctx context.Context, dir string, o LocalOptions) error {
	err := l.try()
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	if !o.Wait {
		return refuse(api.CodeBusy, "Try again when it has ended, or wait for it with --wait.", "%s is being synced by %s", dir, l.holder())
	}
	if o.Waiting != nil {
		defer o.Waiting(l.holder())()
	}
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for errors.Is(err, unix.EWOULDBLOCK) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			err = l.try()
		}
	}
	return err
}

func (l *dirLock) try() error {
	return os.NewSyscallError("lock the directory", unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}

// holder describes the holder of the lock, read from the lock file.
func (l *dirLock) holder() string {
	text, _ := io.ReadAll(io.NewSectionReader(l.file, 0, 200))
	line, _, _ := strings.Cut(string(text), "\n")
	return cmp.Or(line, "another process")
}

// sign writes a description of the lock's holder into the lock file. An empty text clears it.
func (l *dirLock) sign(text string) {
	if l.file.Truncate(0) == nil {
		_, _ = l.file.WriteAt([]byte(text), 0)
	}
}

// release releases the lock. It leaves the file: after a removal, two processes could each lock a different file
// with the same name.
func (l *dirLock) release() {
	l.sign("")
	_ = l.file.Close()
}
