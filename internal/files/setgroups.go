package files

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setGroups sets the supplementary groups of this thread alone. The function of package unix sets those
// of all threads.
func setGroups(groups []int) error {
	ids := make([]uint32, len(groups))
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(ids)), uintptr(unsafe.Pointer(unsafe.SliceData(ids))), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
