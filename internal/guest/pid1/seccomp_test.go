package pid1

import (
	"testing"

	"golang.org/x/sys/unix"
)

// eval runs a filter on a call, as the kernel would.
func eval(t *testing.T, p program, arch, number uint32, args ...uint32) uint32 {
	t.Helper()
	data := map[uint32]uint32{dataNumber: number, dataArch: arch}
	for i := range uint32(6) {
		data[argument(i)] = 0
	}
	for i, a := range args {
		data[argument(uint32(i))] = a
	}
	var acc uint32
	for pc := 0; pc < len(p); pc++ {
		in := p[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			v, ok := data[in.K]
			if !ok {
				t.Fatalf("instruction %d loads from %d", pc, in.K)
			}
			acc = v
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(acc == in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(acc&in.K != 0)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(acc >= in.K)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d is %#x", pc, in.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func TestFilter(t *testing.T) {
	p := filterProgram()
	for _, tt := range []struct {
		name   string
		number uint32
		args   []uint32
		want   uint32
	}{
		{"read", unix.SYS_READ, nil, actAllow},
		{"execve", unix.SYS_EXECVE, nil, actAllow},
		{"ptrace", unix.SYS_PTRACE, nil, actAllow},
		{"seccomp", unix.SYS_SECCOMP, nil, actAllow},
		{"chroot", unix.SYS_CHROOT, nil, actAllow},
		{"a thread", unix.SYS_CLONE, []uint32{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, actAllow},
		{"a fork", unix.SYS_CLONE, []uint32{uint32(unix.SIGCHLD)}, actAllow},
		{"clone with a user namespace", unix.SYS_CLONE, []uint32{unix.CLONE_NEWUSER | uint32(unix.SIGCHLD)}, actRefuse},
		{"clone with a cgroup namespace", unix.SYS_CLONE, []uint32{unix.CLONE_NEWCGROUP}, actRefuse},
		{"clone3", unix.SYS_CLONE3, nil, actMissing},
		{"unshare files", unix.SYS_UNSHARE, []uint32{unix.CLONE_FILES}, actAllow},
		{"unshare user", unix.SYS_UNSHARE, []uint32{unix.CLONE_NEWUSER}, actRefuse},
		{"unshare time", unix.SYS_UNSHARE, []uint32{unix.CLONE_NEWTIME}, actRefuse},
		{"unix socket", unix.SYS_SOCKET, []uint32{unix.AF_UNIX, unix.SOCK_STREAM, 0}, actAllow},
		{"tcp", unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_STREAM, 6}, actAllow},
		{"tcp6", unix.SYS_SOCKET, []uint32{unix.AF_INET6, unix.SOCK_STREAM, 0}, actAllow},
		{"udp", unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, actAllow},
		{"ping", unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, actAllow},
		{"ping6", unix.SYS_SOCKET, []uint32{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, actAllow},
		{"multipath", unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, actProto},
		{"sctp", unix.SYS_SOCKET, []uint32{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, actProto},
		{"lite", unix.SYS_SOCKET, []uint32{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}, actProto},
		{"routes", unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, actAllow},
		{"audit", unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, actFamily},
		{"vsock", unix.SYS_SOCKET, []uint32{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, actFamily},
		{"packet", unix.SYS_SOCKET, []uint32{unix.AF_PACKET, unix.SOCK_RAW, 0}, actFamily},
		{"alg", unix.SYS_SOCKET, []uint32{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, actFamily},
		{"xdp", unix.SYS_SOCKET, []uint32{unix.AF_XDP, unix.SOCK_RAW, 0}, actFamily},
		{"socketpair", unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX}, actAllow},
		{"socketpair of another family", unix.SYS_SOCKETPAIR, []uint32{unix.AF_TIPC}, actFamily},
		{"address reuse", unix.SYS_SETSOCKOPT, []uint32{0, unix.SOL_SOCKET, unix.SO_REUSEADDR}, actAllow},
		{"an option of TCP", unix.SYS_SETSOCKOPT, []uint32{0, unix.IPPROTO_TCP, unix.SO_ATTACH_FILTER}, actAllow},
		{"socket filter", unix.SYS_SETSOCKOPT, []uint32{0, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, actOption},
		{"times of sent messages", unix.SYS_SETSOCKOPT, []uint32{0, unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW}, actOption},
		{"window size", unix.SYS_IOCTL, []uint32{0, unix.TIOCGWINSZ}, actAllow},
		{"fake input", unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, actRefuse},
		{"console", unix.SYS_IOCTL, []uint32{0, unix.TIOCLINUX}, actRefuse},
		{"fifo", unix.SYS_MKNODAT, []uint32{0, 0, unix.S_IFIFO | 0o644}, actAllow},
		{"plain file", unix.SYS_MKNODAT, []uint32{0, 0, unix.S_IFREG | 0o644}, actAllow},
		{"character device", unix.SYS_MKNODAT, []uint32{0, 0, unix.S_IFCHR | 0o644}, actRefuse},
		{"block device", unix.SYS_MKNODAT, []uint32{0, 0, unix.S_IFBLK | 0o644}, actRefuse},
		{"asynchronous requests", unix.SYS_IO_SETUP, []uint32{1, 0}, actMissing},
		{"pages in memory", unix.SYS_MINCORE, nil, actMissing},
		{"pages of a file in memory", unix.SYS_CACHESTAT, nil, actMissing},
		{"last", 100_000, nil, actAllow},
	} {
		if got := eval(t, p, auditArch, tt.number, tt.args...); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
	for _, number := range append(refused, refusedHere...) {
		if got := eval(t, p, auditArch, number); got != actRefuse {
			t.Errorf("call %d: %#x", number, got)
		}
	}
	if got := eval(t, p, unix.AUDIT_ARCH_I386, unix.SYS_READ); got != actKill {
		t.Errorf("another machine's call: %#x", got)
	}
	if len(p) > 1000 {
		t.Errorf("the filter has %d instructions", len(p))
	}
}
