//go:build !seeded_noflock

package dirblob

import "golang.org/x/sys/unix"

// lockFile takes a lock against other processes, or says EWOULDBLOCK.
func lockFile(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }
