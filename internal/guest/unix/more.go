package unix

import (
	"syscall"
	"unsafe"
)

// result is what a system call returned, as Go returns it.
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

// FcntlInt is fcntl with a number.
func FcntlInt(fd uintptr, cmd, arg int) (int, error) {
	return result(syscall.Syscall(SYS_FCNTL, fd, uintptr(cmd), uintptr(arg)))
}

// Prctl is prctl.
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

// Writev writes several buffers as one, none of them empty. A few bytes go to a file without a word to the
// scheduler, as in ReadNow: they go no further than to memory.
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
	if size <= few {
		return result(syscall.RawSyscall(SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vectors)), uintptr(len(parts))))
	}
	return result(syscall.Syscall(SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vectors)), uintptr(len(parts))))
}

const few = 4 << 10

// ReadNow reads from what does not block. The scheduler is not told: it would wake its watchman, and in a process
// that mostly waits, that is half of what a read costs.
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

// Winsize is a terminal's size.
type Winsize struct{ Row, Col, Xpixel, Ypixel uint16 }

// IoctlSetWinsize sets it.
func IoctlSetWinsize(fd int, req uint, value *Winsize) error {
	return failure(syscall.Syscall(SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(unsafe.Pointer(value))))
}

// IoctlSetPointerInt is an ioctl that takes the address of a number.
func IoctlSetPointerInt(fd int, req uint, value int) error {
	v := int32(value)
	return failure(syscall.Syscall(SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(unsafe.Pointer(&v))))
}

// Ifreq is a request about a network interface.
type Ifreq struct {
	name [syscall.IFNAMSIZ]byte
	data [24]byte
}

// NewIfreq is a request about the interface of that name.
func NewIfreq(name string) (*Ifreq, error) {
	r := new(Ifreq)
	if len(name) >= len(r.name) {
		return nil, EINVAL
	}
	copy(r.name[:], name)
	return r, nil
}

// SetUint16 gives the request a number, such as flags.
func (r *Ifreq) SetUint16(v uint16) { *(*uint16)(unsafe.Pointer(&r.data)) = v }

// IoctlIfreq makes the request.
func IoctlIfreq(fd int, req uint, value *Ifreq) error {
	return failure(syscall.Syscall(SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(unsafe.Pointer(value))))
}

// CapUserHeader says whose capabilities capset changes.
type CapUserHeader struct {
	Version uint32
	Pid     int32
}

// CapUserData are 32 of them.
type CapUserData struct{ Effective, Permitted, Inheritable uint32 }
