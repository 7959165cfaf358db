package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls lists system calls that give access to kernel functions that a sandbox does not need. The arguments are chosen
// so that a call has no lasting effect.
var calls = map[string]func() error{
	"keyctl": func() error {
		const sessionKeyring = -3
		_, err := unix.KeyctlGetKeyringID(sessionKeyring, true)
		return err
	},
	"add_key": func() error {
		const processKeyring = -2
		_, err := unix.AddKey("user", "berth-attack", []byte("x"), processKeyring)
		return err
	},
	"bpf": func() error {
		const mapCreate, arrayMap = 0, 2
		attr := struct{ kind, key, value, entries uint32 }{arrayMap, 4, 4, 1}
		return rawSyscall(unix.SYS_BPF, mapCreate, pointer(&attr), unsafe.Sizeof(attr))
	},
	"perf_event_open": func() error {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK}
		attr.Size = uint32(unsafe.Sizeof(attr))
		_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
		return err
	},
	"io_uring_setup": func() error {
		var params [120]byte
		return rawSyscall(unix.SYS_IO_URING_SETUP, 1, pointer(&params), 0)
	},
	"userfaultfd": func() error {
		const userModeOnly = 1
		return rawSyscall(unix.SYS_USERFAULTFD, userModeOnly, 0, 0)
	},
	"fanotify_init": func() error {
		_, err := unix.FanotifyInit(0, unix.O_RDONLY)
		return err
	},
	"name_to_handle_at": func() error {
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/", 0)
		return err
	},
	"open_tree": func() error {
		_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
		return err
	},
	"fsopen": func() error {
		_, err := unix.Fsopen("tmpfs", 0)
		return err
	},
	"syslog": func() error {
		const size = 10
		return rawSyscall(unix.SYS_SYSLOG, size, 0, 0)
	},
	"kcmp": func() error {
		pid := uintptr(os.Getpid())
		const file = 0
		return rawSyscall(unix.SYS_KCMP, pid, pid, file)
	},
	"mincore": func() error {
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			return err
		}
		defer self.Close()
		data, err := unix.Mmap(int(self.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		var resident [1]byte
		return rawSyscall(unix.SYS_MINCORE, pointer(&data[0]), uintptr(len(data)), pointer(&resident))
	},
	"timestamping": func() error {
		return onSocket(func(fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, unix.SOF_TIMESTAMPING_TX_SOFTWARE)
		})
	},
	"attach_filter": func() error {
		const acceptAll = unix.BPF_RET | unix.BPF_K
		program := []unix.SockFilter{{Code: acceptAll, K: 1}}
		return onSocket(func(fd int) error {
			return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &program[0]})
		})
	},
	"sethostname": func() error { return unix.Sethostname([]byte("taken")) },
}

// onSocket calls do with a new socket.
func onSocket(do func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

func rawSyscall(number, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall(number, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// call makes the system call that the argument names.
func call(args []string) error {
	w, err := words(args, 1)
	if err != nil || calls[w[0]] == nil {
		return errUsage
	}
	return calls[w[0]]()
}

// socket opens a socket of a family, type and protocol.
func socket(args []string) error {
	n, err := number(args, 3)
	if err != nil {
		return err
	}
	_, err = unix.Socket(n[0], n[1], n[2])
	return err
}

// int80 makes a system call through the entry for 32-bit programs, which numbers the calls differently.
func int80([]string) error {
	const getpid = 20
	if pid := call32(getpid); pid != os.Getpid() {
		return fmt.Errorf("it answers %d", pid)
	}
	return nil
}

// inject runs the attack "injected" on a new terminal.
func inject([]string) error {
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer screen.Close()
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, screen.Fd(), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY)
	if errno != 0 {
		return errno
	}
	cmd := exec.Command("/proc/self/exe", "injected")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.NewFile(peer, "tty"), os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return cmd.Run()
}

// injected inserts characters into the input of its terminal and prints the line that it then reads.
func injected([]string) error {
	for _, c := range []byte("typed\n") {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, pointer(&c)); errno != 0 {
			return errno
		}
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Println(strconv.Quote(line))
	return err
}
