package cli

import (
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
	"github.com/berthdev/berth/internal/workspace"
)

// lockName is the file in a directory that its syncs lock, ours and those of other tools.
const lockName = workspace.StateFile + ".lock"

// lockEvery is how often a lock is asked for that somebody else has: a lock that blocks could not be
// called off.
const lockEvery = 100 * time.Millisecond

// treeLock is the right to sync a directory. The kernel frees it when the process ends, however it ends;
// what is in the file is for people.
type treeLock struct{ file *os.File }

// lockTree takes the lock, at once or not at all unless wait is set.
func (f *frame) lockTree(ctx context.Context, dir string, wait bool) (*treeLock, error) {
	file, err := openLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, noDirectory(dir, err)
	}
	l := &treeLock{file}
	if err := f.take(ctx, l, dir, wait); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	host, _ := os.Hostname()
	l.sign(fmt.Sprintf("process %d on %s\n", os.Getpid(), host))
	return l, nil
}

// openLock opens the file, and nothing that somebody put in its place.
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

// take locks the file, in time.
func (f *frame) take(ctx context.Context, l *treeLock, dir string, wait bool) error {
	err := l.try()
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	if !wait {
		return refusal(api.CodeBusy, "Try again when it has ended, or wait for it with --wait.", "%s is being synced by %s", dir, l.holder())
	}
	spin := f.spin("waiting for " + l.holder())
	defer spin.stop()
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

func (l *treeLock) try() error {
	return os.NewSyscallError("lock the directory", unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}

// holder is who has the lock, as far as the file says.
func (l *treeLock) holder() string {
	text, _ := io.ReadAll(io.NewSectionReader(l.file, 0, 200))
	line, _, _ := strings.Cut(string(text), "\n")
	return clean(first(line, "another process"))
}

// sign says in the file who has the lock.
func (l *treeLock) sign(text string) {
	if l.file.Truncate(0) == nil {
		_, _ = l.file.WriteAt([]byte(text), 0)
	}
}

// release leaves the file: removing it would let two processes lock two files of one name.
func (l *treeLock) release() {
	l.sign("")
	_ = l.file.Close()
}
