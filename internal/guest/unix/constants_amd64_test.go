package unix

import sys "golang.org/x/sys/unix"

var constantsHere = []constant{
	{"SYS_CREATE_MODULE", int64(SYS_CREATE_MODULE), int64(sys.SYS_CREATE_MODULE)},
	{"SYS_GET_KERNEL_SYMS", int64(SYS_GET_KERNEL_SYMS), int64(sys.SYS_GET_KERNEL_SYMS)},
	{"SYS_IOPERM", int64(SYS_IOPERM), int64(sys.SYS_IOPERM)},
	{"SYS_IOPL", int64(SYS_IOPL), int64(sys.SYS_IOPL)},
	{"SYS_MKNOD", int64(SYS_MKNOD), int64(sys.SYS_MKNOD)},
	{"SYS_MODIFY_LDT", int64(SYS_MODIFY_LDT), int64(sys.SYS_MODIFY_LDT)},
	{"SYS_QUERY_MODULE", int64(SYS_QUERY_MODULE), int64(sys.SYS_QUERY_MODULE)},
	{"SYS_SYSFS", int64(SYS_SYSFS), int64(sys.SYS_SYSFS)},
	{"SYS_USELIB", int64(SYS_USELIB), int64(sys.SYS_USELIB)},
	{"SYS_USTAT", int64(SYS_USTAT), int64(sys.SYS_USTAT)},
	{"SYS__SYSCTL", int64(SYS__SYSCTL), int64(sys.SYS__SYSCTL)},
}
