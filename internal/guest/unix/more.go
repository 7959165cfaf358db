package unix

import (
	"syscall"
	"unsafe"
)

// result converts the result of a system call to Go's form.
func result(r, _ uintptr, errno Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

func failure(_, _ uintptr, errno Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// FcntlInt calls fcntl with an integer argument.
func FcntlInt(fd uintptr, cmd, arg int) (int, error) {
	return result(syscall.Syscall(SYS_FCNTL, fd, uintptr(cmd), uintptr(arg)))
}

// Prctl calls prctl.
func Prctl(option int, arg2, arg3, arg4, arg5 uintptr) error {
	return failure(syscall.Syscall6(SYS_PRCTL, uintptr(option), arg2, arg3, arg4, arg5, 0))
}

// MemfdCreate makes a file in memory.
func MemfdCreate(name string, flags int) (fd int, err error) {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	return result(syscall.Syscall(SYS_MEMFD_CREATE, uintptr(unsafe.Pointer(p)), uintptr(flags), 0))
}

// Writev writes several buffers with one call. No buffer may be empty. For a small size it does not notify Go's
// scheduler, as in ReadNow: a small write to a file ends in the page cache and does not block.
func Writev(fd int, parts [][]byte) (n int, err error) {
	var vectors [4]syscall.Iovec
	if len(parts) > len(vectors) {
		return -1, EINVAL
	}
	size := 0
	for i, p := range parts {
		vectors[i].Base = unsafe.SliceData(p)
		vectors[i].SetLen(len(p))
		size += len(p)
	}
	if size <= maxRawWrite {
		return result(syscall.RawSyscall(SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vectors)), uintptr(len(parts))))
	}
	return result(syscall.Syscall(SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vectors)), uintptr(len(parts))))
}

// maxRawWrite is the size in bytes of the largest write for which Writev does not notify the scheduler.
const maxRawWrite = 4 << 10

// ReadNow reads from a descriptor that does not block. It does not notify Go's scheduler of the system call: the
// scheduler would wake its monitor thread, which is half the cost of a read in a process that is idle most of the time.
func ReadNow(fd int, p []byte) (n int, err error) {
	return result(syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

// Unlinkat removes a name in a directory.
func Unlinkat(dirfd int, path string, flags int) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	return failure(syscall.Syscall(SYS_UNLINKAT, uintptr(dirfd), uintptr(unsafe.Pointer(p)), uintptr(flags)))
}

// Renameat2 renames a file, with flags.
func Renameat2(fromdir int, from string, todir int, to string, flags int) error {
	f, err := syscall.BytePtrFromString(from)
	if err != nil {
		return err
	}
	t, err := syscall.BytePtrFromString(to)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(SYS_RENAMEAT2, uintptr(fromdir), uintptr(unsafe.Pointer(f)), uintptr(todir), uintptr(unsafe.Pointer(t)), uintptr(flags), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Symlinkat makes a symbolic link in a directory.
func Symlinkat(target string, dirfd int, path string) error {
	t, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	return failure(syscall.Syscall(SYS_SYMLINKAT, uintptr(unsafe.Pointer(t)), uintptr(dirfd), uintptr(unsafe.Pointer(p))))
}

// Winsize is the size of a terminal.
type Winsize struct{ Row, Col, Xpixel, Ypixel uint16 }

// IoctlSetWinsize sets the size of a terminal.
func IoctlSetWinsize(fd int, req uint, value *Winsize) error {
	return failure(syscall.Syscall(SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(unsafe.Pointer(value))))
}

// IoctlSetPointerInt makes an ioctl whose argument is the address of value.
func IoctlSetPointerInt(fd int, req uint, value int) error {
	v := int32(value)
	return failure(syscall.Syscall(SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(unsafe.Pointer(&v))))
}

// Ifreq is the argument of an ioctl for a network interface.
type Ifreq struct {
	name [syscall.IFNAMSIZ]byte
	data [24]byte
}

// NewIfreq returns an Ifreq for the interface with this name.
func NewIfreq(name string) (*Ifreq, error) {
	r := new(Ifreq)
	if len(name) >= len(r.name) {
		return nil, EINVAL
	}
	copy(r.name[:], name)
	return r, nil
}

// SetUint16 sets the value of the request, for example flags.
func (r *Ifreq) SetUint16(v uint16) { *(*uint16)(unsafe.Pointer(&r.data)) = v }

// IoctlIfreq makes an ioctl with an Ifreq.
func IoctlIfreq(fd int, req uint, value *Ifreq) error {
	return failure(syscall.Syscall(SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(unsafe.Pointer(value))))
}

// CapUserHeader names the process whose capabilities capset changes.
type CapUserHeader struct {
	Version uint32
	Pid     int32
}

// CapUserData holds the sets of 32 capabilities, one bit each.
type CapUserData struct{ Effective, Permitted, Inheritable uint32 }
