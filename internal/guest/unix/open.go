package unix

import (
	"syscall"
	"unsafe"
)

// OpenHow holds the flags, the mode and the path restrictions of Openat2.
type OpenHow struct{ Flags, Mode, Resolve uint64 }

// Values of OpenHow.Resolve: the kinds of path that Openat2 refuses.
const (
	RESOLVE_NO_XDEV       = 0x1
	RESOLVE_NO_MAGICLINKS = 0x2
	RESOLVE_NO_SYMLINKS   = 0x4
	RESOLVE_BENEATH       = 0x8
)

// SYS_OPENAT2 is the same number on all supported architectures.
const SYS_OPENAT2 = 437

// Openat2 opens a file. It refuses the paths that how.Resolve excludes.
func Openat2(dirfd int, path string, how *OpenHow) (fd int, err error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	return result(syscall.Syscall6(SYS_OPENAT2, uintptr(dirfd), uintptr(unsafe.Pointer(p)),
		uintptr(unsafe.Pointer(how)), unsafe.Sizeof(*how), 0, 0))
}
