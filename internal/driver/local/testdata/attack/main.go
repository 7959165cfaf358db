// Command attack tries, one after the other, what no command in an instance may do, and says how each try
// ended: a line with the name of the try and the error, or ok. Given dial, a network and an address, it
// tries that instead.
package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempt is one try.
type attempt struct {
	name string
	do   func() error
}

func call(number uintptr, args ...uintptr) func() error {
	var a [6]uintptr
	copy(a[:], args)
	return func() error {
		r, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			return errno
		}
		_ = r
		return nil
	}
}

func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// inChild makes a child with clone's flags and waits for it.
func inChild(flags uintptr) func() error {
	return func() error {
		p, err := os.StartProcess("/proc/self/exe", []string{"attack", "nothing"}, &os.ProcAttr{
			Sys: &syscall.SysProcAttr{Cloneflags: flags},
		})
		if err != nil {
			return unwrap(err)
		}
		_, err = p.Wait()
		return err
	}
}

func unwrap(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return e.Err
	}
	return err
}

func text(s string) uintptr {
	b, _ := unix.BytePtrFromString(s)
	return uintptr(unsafe.Pointer(b))
}

func attempts() []attempt {
	dot := text(".")
	tmp := text("/tmp")
	node := text("/tmp/node" + strconv.Itoa(os.Getpid()))
	kind := text("tmpfs")
	return []attempt{
		{"clone-newuser", inChild(unix.CLONE_NEWUSER)},
		{"clone-newns", inChild(unix.CLONE_NEWNS)},
		{"clone3", call(unix.SYS_CLONE3, 0, 0)},
		{"unshare-newuser", call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
		{"unshare-newnet", call(unix.SYS_UNSHARE, unix.CLONE_NEWNET)},
		{"unshare-newtime", call(unix.SYS_UNSHARE, unix.CLONE_NEWTIME)},
		{"setns", call(unix.SYS_SETNS, 0, 0)},
		{"mount", call(unix.SYS_MOUNT, kind, tmp, kind, 0, 0)},
		{"umount2", call(unix.SYS_UMOUNT2, tmp, 0)},
		{"pivot_root", call(unix.SYS_PIVOT_ROOT, dot, dot)},
		{"fsopen", call(unix.SYS_FSOPEN, kind, 0)},
		{"open_tree", call(unix.SYS_OPEN_TREE, ^uintptr(99), tmp, unix.OPEN_TREE_CLONE)},
		{"move_mount", call(unix.SYS_MOVE_MOUNT, 0, dot, 0, dot, 0)},
		{"mount_setattr", call(unix.SYS_MOUNT_SETATTR, 0, dot, 0, 0, 0)},
		{"bpf", call(unix.SYS_BPF, 0, 0, 0)},
		{"perf_event_open", call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0)},
		{"userfaultfd", call(unix.SYS_USERFAULTFD, 0)},
		{"io_uring_setup", call(unix.SYS_IO_URING_SETUP, 1, 0)},
		{"keyctl", call(unix.SYS_KEYCTL, 0, 0, 0)},
		{"add_key", call(unix.SYS_ADD_KEY, 0, 0, 0, 0, 0)},
		{"request_key", call(unix.SYS_REQUEST_KEY, 0, 0, 0, 0)},
		{"open_by_handle_at", call(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0)},
		{"name_to_handle_at", call(unix.SYS_NAME_TO_HANDLE_AT, 0, dot, 0, 0, 0)},
		{"pidfd_getfd", call(unix.SYS_PIDFD_GETFD, 0, 0, 0)},
		{"kexec_load", call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)},
		{"init_module", call(unix.SYS_INIT_MODULE, 0, 0, 0)},
		{"delete_module", call(unix.SYS_DELETE_MODULE, 0, 0)},
		{"reboot", call(unix.SYS_REBOOT, 0, 0, 0, 0)},
		{"swapon", call(unix.SYS_SWAPON, tmp, 0)},
		{"quotactl", call(unix.SYS_QUOTACTL, 0, 0, 0, 0)},
		{"acct", call(unix.SYS_ACCT, 0)},
		{"syslog", call(unix.SYS_SYSLOG, 3, 0, 0)},
		{"settimeofday", call(unix.SYS_SETTIMEOFDAY, 0, 0)},
		{"mknod-char", call(unix.SYS_MKNODAT, ^uintptr(99), node, unix.S_IFCHR|0o600, 0x103)},
		{"mknod-block", call(unix.SYS_MKNODAT, ^uintptr(99), node, unix.S_IFBLK|0o600, 0x700)},
		{"tiocsti", call(unix.SYS_IOCTL, 0, unix.TIOCSTI, tmp)},
		{"tioclinux", call(unix.SYS_IOCTL, 0, unix.TIOCLINUX, tmp)},
		{"vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"packet", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"alg", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{"uevent", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)},
		{"raw", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{"sethostname", call(unix.SYS_SETHOSTNAME, dot, 1)},

		{"allowed-netlink-route", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
		{"allowed-tcp", socket(unix.AF_INET, unix.SOCK_STREAM, 0)},
		{"allowed-tcp6", socket(unix.AF_INET6, unix.SOCK_STREAM, 0)},
		{"allowed-unix", socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)},
		{"allowed-fifo", call(unix.SYS_MKNODAT, ^uintptr(99), node, unix.S_IFIFO|0o600, 0)},
		{"allowed-unshare-files", call(unix.SYS_UNSHARE, unix.CLONE_FILES)},
		{"allowed-fork", inChild(0)},
	}
}

// backlog fills so many connections that it does not accept, each with some mebibytes, and holds them for a minute.
func backlog(n int) error {
	for range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20)
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return err
		}
		if err := unix.Listen(fd, 1); err != nil {
			return err
		}
		at, err := unix.Getsockname(fd)
		if err != nil {
			return err
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", at.(*unix.SockaddrInet4).Port))
		if err != nil {
			return err
		}
		go conn.Write(make([]byte, 8<<20))
	}
	fmt.Println("filled")
	time.Sleep(time.Minute)
	return nil
}

// unread has so many netlink sockets full of answers that it does not read, and holds them for a minute.
func unread(n int) error {
	request := make([]byte, 8<<10)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], 9999) // no such request: the answer repeats all of it
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	for range n {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20)
		for range 300 {
			if unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
				break
			}
		}
	}
	time.Sleep(time.Minute)
	return nil
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "nothing" {
		return
	}
	if len(os.Args) > 3 && os.Args[1] == "dial" {
		if _, err := net.Dial(os.Args[2], os.Args[3]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "backlog" {
		n, _ := strconv.Atoi(os.Args[2])
		if err := backlog(n); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "netlink" {
		n, _ := strconv.Atoi(os.Args[2])
		if err := unread(n); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	runtime.LockOSThread()
	var out strings.Builder
	for _, a := range attempts() {
		err := a.do()
		result := "ok"
		if err != nil {
			result = err.Error()
		}
		fmt.Fprintf(&out, "%s: %s\n", a.name, result)
	}
	os.Stdout.WriteString(out.String())
}
