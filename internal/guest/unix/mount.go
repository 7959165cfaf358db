package unix

import (
	"syscall"
	"unsafe"
)

// Commands of fsconfig.
const (
	fsconfigSetFlag   = 0
	fsconfigSetString = 1
	fsconfigCreate    = 6
)

// Fsopen starts the creation of a file system and returns its descriptor.
func Fsopen(fsName string, flags int) (fd int, err error) {
	p, err := syscall.BytePtrFromString(fsName)
	if err != nil {
		return -1, err
	}
	return result(syscall.Syscall(SYS_FSOPEN, uintptr(unsafe.Pointer(p)), uintptr(flags), 0))
}

// FsconfigSetFlag sets an option without a value for a file system from Fsopen.
func FsconfigSetFlag(fd int, key string) error {
	k, err := syscall.BytePtrFromString(key)
	if err != nil {
		return err
	}
	return failure(syscall.Syscall6(SYS_FSCONFIG, uintptr(fd), fsconfigSetFlag, uintptr(unsafe.Pointer(k)), 0, 0, 0))
}

// FsconfigSetString sets an option with a value for a file system from Fsopen.
func FsconfigSetString(fd int, key, value string) error {
	k, err := syscall.BytePtrFromString(key)
	if err != nil {
		return err
	}
	v, err := syscall.BytePtrFromString(value)
	if err != nil {
		return err
	}
	return failure(syscall.Syscall6(SYS_FSCONFIG, uintptr(fd), fsconfigSetString,
		uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(v)), 0, 0))
}

// FsconfigCreate creates the file system with the options that were set.
func FsconfigCreate(fd int) error {
	return failure(syscall.Syscall6(SYS_FSCONFIG, uintptr(fd), fsconfigCreate, 0, 0, 0, 0))
}

// Fsmount makes a detached mount of a file system that FsconfigCreate created.
func Fsmount(fd int, flags int, mountAttrs int) (fsfd int, err error) {
	return result(syscall.Syscall(SYS_FSMOUNT, uintptr(fd), uintptr(flags), uintptr(mountAttrs)))
}

// MoveMount attaches a mount.
func MoveMount(fromDirfd int, fromPath string, toDirfd int, toPath string, flags int) error {
	from, err := syscall.BytePtrFromString(fromPath)
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(toPath)
	if err != nil {
		return err
	}
	return failure(syscall.Syscall6(SYS_MOVE_MOUNT, uintptr(fromDirfd), uintptr(unsafe.Pointer(from)),
		uintptr(toDirfd), uintptr(unsafe.Pointer(to)), uintptr(flags), 0))
}

// OpenTree opens a mount, or a detached copy of it.
func OpenTree(dirfd int, path string, flags uint) (fd int, err error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	return result(syscall.Syscall(SYS_OPEN_TREE, uintptr(dirfd), uintptr(unsafe.Pointer(p)), uintptr(flags)))
}

// MountAttr holds the attributes that MountSetattr sets and clears.
type MountAttr struct {
	Attr_set, Attr_clr, Propagation, Userns_fd uint64
}

// MountSetattr changes the attributes of a mount.
func MountSetattr(dirfd int, path string, flags uint, attr *MountAttr) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	return failure(syscall.Syscall6(SYS_MOUNT_SETATTR, uintptr(dirfd), uintptr(unsafe.Pointer(p)), uintptr(flags),
		uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0))
}
