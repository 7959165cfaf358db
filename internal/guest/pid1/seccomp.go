package pid1

import (
	"unsafe"

	"github.com/berthdev/berth/internal/guest/unix"
)

// The seccomp filter refuses system calls that affect more than the instance: making namespaces and mounts, changing
// settings of the kernel, other kinds of sockets. It allows all others, so debuggers and nested sandboxes without
// namespaces work.

// The offsets of fields in struct seccomp_data. Arguments have 64 bits. The filter checks only the lower 32, which
// come first on the supported, little-endian machines.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16
)

func argument(n uint32) uint32 { return dataArgs + 8*n }

// The results of the filter for a system call.
const (
	actAllow   = unix.SECCOMP_RET_ALLOW
	actKill    = unix.SECCOMP_RET_KILL_PROCESS
	actRefuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	actMissing = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	actFamily  = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	actOption  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOPROTOOPT)
	actProto   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
)

// newSpaces are the flags of clone and unshare that make namespaces.
const newSpaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// refused lists the system calls that no process inside may make on any architecture. refusedHere has those that only
// this architecture has.
var refused = []uint32{
	unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT,
	unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
}

// missing lists the system calls that return ENOSYS, as on a kernel without them; programs can work without these
// calls. io_setup takes from a limit of the whole machine. The others show which pages of the host's /usr another
// instance has read.
var missing = []uint32{unix.SYS_IO_SETUP, unix.SYS_MINCORE, unix.SYS_CACHESTAT}

// program is a filter that its methods append instructions to.
type program []unix.SockFilter

func (p *program) add(code uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
}

func (p *program) load(offset uint32) { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }
func (p *program) answer(act uint32)  { p.add(unix.BPF_RET|unix.BPF_K, act, 0, 0) }

// equal skips yes instructions if the loaded value is k, and otherwise no instructions.
func (p *program) equal(k uint32, yes, no uint8) {
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, yes, no)
}

// any skips yes instructions if the loaded value has any bit of k, and otherwise no instructions.
func (p *program) any(k uint32, yes, no uint8) {
	p.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, k, yes, no)
}

// atLeast skips yes instructions if the loaded value is at least k, and otherwise no instructions.
func (p *program) atLeast(k uint32, yes, no uint8) {
	p.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, k, yes, no)
}

// on adds the instructions for one system call. The instructions that rest adds must end with an answer.
func (p *program) on(number uint32, rest func(*program)) {
	var body program
	rest(&body)
	p.equal(number, 0, uint8(len(body)))
	*p = append(*p, body...)
}

// always answers with act.
func always(act uint32) func(*program) {
	return func(p *program) { p.answer(act) }
}

// ifAny answers with act if the argument has any of the bits, and otherwise allows the call.
func ifAny(arg, bits, act uint32) func(*program) {
	return func(p *program) {
		p.load(argument(arg))
		p.any(bits, 0, 1)
		p.answer(act)
		p.answer(actAllow)
	}
}

// ifOneOf answers with act if the argument's bits in mask are one of the values, and otherwise allows the call.
func ifOneOf(arg, mask, act uint32, values ...uint32) func(*program) {
	return func(p *program) {
		p.load(argument(arg))
		p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask, 0, 0)
		for i, v := range values {
			p.equal(v, uint8(len(values)-i), 0)
		}
		p.answer(actAllow)
		p.answer(act)
	}
}

// sockets allows Unix sockets, the usual protocols of IPv4 and IPv6, and netlink sockets only for NETLINK_ROUTE. A socket
// of another protocol, such as SCTP, loads a module of the kernel. The kernel does not return all of the memory that it
// charges for connections of MPTCP; programs use TCP without it.
func sockets(p *program) {
	p.load(argument(0))
	p.equal(unix.AF_UNIX, 12, 0)
	p.equal(unix.AF_INET, 4, 0)
	p.equal(unix.AF_INET6, 3, 0)
	p.equal(unix.AF_NETLINK, 0, 10)
	p.load(argument(2))
	p.equal(unix.NETLINK_ROUTE, 7, 8)
	p.load(argument(2))
	p.equal(0, 5, 0)
	p.equal(unix.IPPROTO_ICMP, 4, 0)
	p.equal(unix.IPPROTO_TCP, 3, 0)
	p.equal(unix.IPPROTO_UDP, 2, 0)
	p.equal(unix.IPPROTO_ICMPV6, 1, 0)
	p.answer(actProto)
	p.answer(actAllow)
	p.answer(actFamily)
}

// socketOptions refuses options of sockets that take from the whole machine: filters, because all programs that the
// kernel compiles share a limit, and the times of sent messages, because the kernel queues them with the messages and
// charges no memory cgroup for them.
func socketOptions(p *program) {
	p.load(argument(1))
	p.equal(unix.SOL_SOCKET, 1, 0)
	p.answer(actAllow)
	ifOneOf(2, ^uint32(0), actOption, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF,
		unix.SO_ATTACH_REUSEPORT_EBPF, unix.SO_TIMESTAMPING, unix.SO_TIMESTAMPING_NEW)(p)
}

// filterProgram returns the whole filter.
func filterProgram() program {
	var p program
	p.load(dataArch)
	p.equal(auditArch, 1, 0)
	p.answer(actKill)
	p.load(dataNumber)
	foreignNumbers(&p)
	// The filter cannot read the flags of clone3, which are in memory. The C library uses clone if clone3 is missing.
	p.on(unix.SYS_CLONE3, always(actMissing))
	p.on(unix.SYS_CLONE, ifAny(0, newSpaces, actRefuse))
	p.on(unix.SYS_UNSHARE, ifAny(0, newSpaces|unix.CLONE_NEWTIME, actRefuse))
	p.on(unix.SYS_SOCKET, sockets)
	p.on(unix.SYS_SOCKETPAIR, sockets)
	p.on(unix.SYS_SETSOCKOPT, socketOptions)
	p.on(unix.SYS_IOCTL, ifOneOf(1, ^uint32(0), actRefuse, unix.TIOCSTI, unix.TIOCLINUX))
	p.on(unix.SYS_MKNODAT, ifOneOf(2, unix.S_IFMT, actRefuse, unix.S_IFCHR, unix.S_IFBLK))
	filterHere(&p)
	for _, number := range append(refused, refusedHere...) {
		p.on(number, always(actRefuse))
	}
	for _, number := range missing {
		p.on(number, always(actMissing))
	}
	p.answer(actAllow)
	return p
}

// filter installs the filter for every thread.
func (w *world) filter() error {
	p := filterProgram()
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	if r != 0 { // r is the id of a thread that could not get the filter
		return unix.ESRCH
	}
	return nil
}
