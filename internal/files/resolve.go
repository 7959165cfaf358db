package files

import "golang.org/x/sys/unix"

// beneath makes the kernel itself keep a path below its directory while it resolves it, whatever is
// swapped meanwhile. Mounts are refused like links that lead out.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// maxAgain bounds how often the kernel may be asked again when it could not rule out a race.
const maxAgain = 1000

// openBeneath opens a path that is not longer than the kernel takes.
func openBeneath(dir int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: beneath}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, path, &how)
		if err != unix.EINTR && (err != unix.EAGAIN || try == maxAgain) {
			return fd, err
		}
	}
}
