//go:build seeded_followlinks

package files

import (
	"golang.org/x/sys/unix"
)

// openBeneath follows links wherever they lead: a bug on purpose, which tests must find.
func openBeneath(dir int, path string, flags int) (int, error) {
	return unix.Openat(dir, path, flags|unix.O_CLOEXEC, 0)
}
