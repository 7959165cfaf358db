package pid1

import "github.com/berthdev/berth/internal/guest/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var refusedHere = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS,
	unix.SYS__SYSCTL, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}

// foreignNumbers refuses the system calls of the x32 ABI, whose numbers have one more bit set.
func foreignNumbers(p *program) {
	const x32 = 1 << 30
	p.atLeast(x32, 0, 1)
	p.answer(actMissing)
}

func filterHere(p *program) {
	p.on(unix.SYS_MKNOD, ifOneOf(1, unix.S_IFMT, actRefuse, unix.S_IFCHR, unix.S_IFBLK))
}
