package unix

// The numbers of system calls.
const (
	SYS_ACCT              = 89
	SYS_ADD_KEY           = 217
	SYS_BPF               = 280
	SYS_CAPSET            = 91
	SYS_CLOCK_ADJTIME     = 266
	SYS_CLOCK_SETTIME     = 112
	SYS_CLONE             = 220
	SYS_DELETE_MODULE     = 106
	SYS_FANOTIFY_INIT     = 262
	SYS_FCNTL             = 25
	SYS_FINIT_MODULE      = 273
	SYS_INIT_MODULE       = 105
	SYS_IOCTL             = 29
	SYS_IO_SETUP          = 0
	SYS_KCMP              = 272
	SYS_KEXEC_FILE_LOAD   = 294
	SYS_KEXEC_LOAD        = 104
	SYS_KEYCTL            = 219
	SYS_LOOKUP_DCOOKIE    = 18
	SYS_MADVISE           = 233
	SYS_MEMFD_CREATE      = 279
	SYS_MINCORE           = 232
	SYS_MKNODAT           = 33
	SYS_MOUNT             = 40
	SYS_NAME_TO_HANDLE_AT = 264
	SYS_NFSSERVCTL        = 42
	SYS_OPEN_BY_HANDLE_AT = 265
	SYS_PERF_EVENT_OPEN   = 241
	SYS_PIVOT_ROOT        = 41
	SYS_PRCTL             = 167
	SYS_QUOTACTL          = 60
	SYS_REBOOT            = 142
	SYS_RENAMEAT2         = 276
	SYS_REQUEST_KEY       = 218
	SYS_SECCOMP           = 277
	SYS_SETNS             = 268
	SYS_SETSOCKOPT        = 208
	SYS_SETTIMEOFDAY      = 170
	SYS_SOCKET            = 198
	SYS_SOCKETPAIR        = 199
	SYS_SWAPOFF           = 225
	SYS_SWAPON            = 224
	SYS_SYMLINKAT         = 36
	SYS_SYSLOG            = 116
	SYS_UMOUNT2           = 39
	SYS_UNLINKAT          = 35
	SYS_UNSHARE           = 97
	SYS_USERFAULTFD       = 282
	SYS_VHANGUP           = 58
	SYS_WRITEV            = 66
)
