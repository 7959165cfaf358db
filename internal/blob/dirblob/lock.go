package dirblob

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"golang.org/x/sys/unix"
)

// locks serializes the replacement and removal of objects, between processes and within this one. A new object
// needs no lock.
type locks struct {
	folder folder
	here   [256]chan struct{} // one per lock file; full while a goroutine of this process holds the lock
}

func newLocks(f folder) *locks {
	l := &locks{folder: f}
	for i := range l.here {
		l.here[i] = make(chan struct{}, 1)
	}
	return l
}

// take waits for the key's lock. Different keys may share a lock.
func (l *locks) take(ctx context.Context, key string) (release func(), err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	n := h.Sum32() % uint32(len(l.here))
	select {
	case l.here[n] <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	fd, err := l.takeFile(ctx, fmt.Sprintf("%02x", n))
	if err != nil {
		<-l.here[n]
		return nil, err
	}
	return func() {
		_ = unix.Close(fd)
		<-l.here[n]
	}, nil
}

// takeFile takes a lock that excludes other processes. It polls, because a blocking call could not be cancelled,
// and because locks are held only for microseconds.
func (l *locks) takeFile(ctx context.Context, name string) (int, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(l.folder.descriptor(), name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return -1, err
	}
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = unix.Close(fd)
			return -1, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			_ = unix.Close(fd)
			return -1, ctx.Err()
		}
	}
}
