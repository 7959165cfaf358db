package unix

import "syscall"

// The functions of this file call the functions of package syscall with the same name.

// Accept4 is syscall.Accept4.
func Accept4(fd int, flags int) (nfd int, sa Sockaddr, err error) { return syscall.Accept4(fd, flags) }

// Bind is syscall.Bind.
func Bind(fd int, sa Sockaddr) error { return syscall.Bind(fd, sa) }

// Chdir is syscall.Chdir.
func Chdir(path string) error { return syscall.Chdir(path) }

// Close is syscall.Close.
func Close(fd int) error { return syscall.Close(fd) }

// CloseOnExec is syscall.CloseOnExec.
func CloseOnExec(fd int) { syscall.CloseOnExec(fd) }

// Connect is syscall.Connect.
func Connect(fd int, sa Sockaddr) error { return syscall.Connect(fd, sa) }

// Dup3 is syscall.Dup3.
func Dup3(oldfd int, newfd int, flags int) error { return syscall.Dup3(oldfd, newfd, flags) }

// Fallocate is syscall.Fallocate.
func Fallocate(fd int, mode uint32, off int64, length int64) error {
	return syscall.Fallocate(fd, mode, off, length)
}

// Fchdir is syscall.Fchdir.
func Fchdir(fd int) error { return syscall.Fchdir(fd) }

// Fchmod is syscall.Fchmod.
func Fchmod(fd int, mode uint32) error { return syscall.Fchmod(fd, mode) }

// Fchown is syscall.Fchown.
func Fchown(fd int, uid int, gid int) error { return syscall.Fchown(fd, uid, gid) }

// Fdatasync is syscall.Fdatasync.
func Fdatasync(fd int) error { return syscall.Fdatasync(fd) }

// Fstat is syscall.Fstat.
func Fstat(fd int, stat *Stat_t) error { return syscall.Fstat(fd, stat) }

// Fstatfs is syscall.Fstatfs.
func Fstatfs(fd int, buf *Statfs_t) error { return syscall.Fstatfs(fd, buf) }

// Fsync is syscall.Fsync.
func Fsync(fd int) error { return syscall.Fsync(fd) }

// Ftruncate is syscall.Ftruncate.
func Ftruncate(fd int, length int64) error { return syscall.Ftruncate(fd, length) }

// InotifyAddWatch is syscall.InotifyAddWatch.
func InotifyAddWatch(fd int, pathname string, mask uint32) (watchdesc int, err error) {
	return syscall.InotifyAddWatch(fd, pathname, mask)
}

// InotifyInit1 is syscall.InotifyInit1.
func InotifyInit1(flags int) (fd int, err error) { return syscall.InotifyInit1(flags) }

// InotifyRmWatch is syscall.InotifyRmWatch.
func InotifyRmWatch(fd int, watchdesc uint32) (success int, err error) {
	return syscall.InotifyRmWatch(fd, watchdesc)
}

// Kill is syscall.Kill.
func Kill(pid int, sig Signal) error { return syscall.Kill(pid, sig) }

// Listen is syscall.Listen.
func Listen(fd int, n int) error { return syscall.Listen(fd, n) }

// Mkdir is syscall.Mkdir.
func Mkdir(path string, mode uint32) error { return syscall.Mkdir(path, mode) }

// Mkdirat is syscall.Mkdirat.
func Mkdirat(dirfd int, path string, mode uint32) error { return syscall.Mkdirat(dirfd, path, mode) }

// Mount is syscall.Mount.
func Mount(source string, target string, fstype string, flags uintptr, data string) error {
	return syscall.Mount(source, target, fstype, flags, data)
}

// Open is syscall.Open.
func Open(path string, mode int, perm uint32) (fd int, err error) {
	return syscall.Open(path, mode, perm)
}

// Openat is syscall.Openat.
func Openat(dirfd int, path string, flags int, mode uint32) (fd int, err error) {
	return syscall.Openat(dirfd, path, flags, mode)
}

// ParseSocketControlMessage is syscall.ParseSocketControlMessage.
func ParseSocketControlMessage(b []byte) ([]syscall.SocketControlMessage, error) {
	return syscall.ParseSocketControlMessage(b)
}

// ParseUnixRights is syscall.ParseUnixRights.
func ParseUnixRights(m *syscall.SocketControlMessage) ([]int, error) {
	return syscall.ParseUnixRights(m)
}

// Pipe2 is syscall.Pipe2.
func Pipe2(p []int, flags int) error { return syscall.Pipe2(p, flags) }

// PivotRoot is syscall.PivotRoot.
func PivotRoot(newroot string, putold string) error { return syscall.PivotRoot(newroot, putold) }

// Pread is syscall.Pread.
func Pread(fd int, p []byte, offset int64) (n int, err error) { return syscall.Pread(fd, p, offset) }

// Pwrite is syscall.Pwrite.
func Pwrite(fd int, p []byte, offset int64) (n int, err error) { return syscall.Pwrite(fd, p, offset) }

// RawSyscall is syscall.RawSyscall.
func RawSyscall(trap, a1, a2, a3 uintptr) (r1, r2 uintptr, err Errno) {
	return syscall.RawSyscall(trap, a1, a2, a3)
}

// Read is syscall.Read.
func Read(fd int, p []byte) (n int, err error) { return syscall.Read(fd, p) }

// Recvfrom is syscall.Recvfrom.
func Recvfrom(fd int, p []byte, flags int) (n int, from Sockaddr, err error) {
	return syscall.Recvfrom(fd, p, flags)
}

// Recvmsg is syscall.Recvmsg.
func Recvmsg(fd int, p, oob []byte, flags int) (n, oobn int, recvflags int, from Sockaddr, err error) {
	return syscall.Recvmsg(fd, p, oob, flags)
}

// Seek is syscall.Seek.
func Seek(fd int, offset int64, whence int) (off int64, err error) {
	return syscall.Seek(fd, offset, whence)
}

// SendmsgN is syscall.SendmsgN.
func SendmsgN(fd int, p, oob []byte, to Sockaddr, flags int) (n int, err error) {
	return syscall.SendmsgN(fd, p, oob, to, flags)
}

// SetNonblock is syscall.SetNonblock.
func SetNonblock(fd int, nonblocking bool) error { return syscall.SetNonblock(fd, nonblocking) }

// Sethostname is syscall.Sethostname.
func Sethostname(p []byte) error { return syscall.Sethostname(p) }

// SetsockoptInt is syscall.SetsockoptInt.
func SetsockoptInt(fd, level, opt int, value int) error {
	return syscall.SetsockoptInt(fd, level, opt, value)
}

// Shutdown is syscall.Shutdown.
func Shutdown(fd int, how int) error { return syscall.Shutdown(fd, how) }

// Socket is syscall.Socket.
func Socket(domain, typ, proto int) (fd int, err error) { return syscall.Socket(domain, typ, proto) }

// Socketpair is syscall.Socketpair.
func Socketpair(domain, typ, proto int) (fd [2]int, err error) {
	return syscall.Socketpair(domain, typ, proto)
}

// Stat is syscall.Stat.
func Stat(path string, stat *Stat_t) error { return syscall.Stat(path, stat) }

// Statfs is syscall.Statfs.
func Statfs(path string, buf *Statfs_t) error { return syscall.Statfs(path, buf) }

// Syscall is syscall.Syscall.
func Syscall(trap, a1, a2, a3 uintptr) (r1, r2 uintptr, err Errno) {
	return syscall.Syscall(trap, a1, a2, a3)
}

// Umask is syscall.Umask.
func Umask(mask int) (oldmask int) { return syscall.Umask(mask) }

// UnixRights is syscall.UnixRights.
func UnixRights(fds ...int) []byte { return syscall.UnixRights(fds...) }

// Unmount is syscall.Unmount.
func Unmount(target string, flags int) error { return syscall.Unmount(target, flags) }

// Unshare is syscall.Unshare.
func Unshare(flags int) error { return syscall.Unshare(flags) }

// Write is syscall.Write.
func Write(fd int, p []byte) (n int, err error) { return syscall.Write(fd, p) }
