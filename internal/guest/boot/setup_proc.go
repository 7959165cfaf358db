package boot

import "github.com/berthdev/berth/internal/guest/unix"

// masked is what of /proc tells about the host, or acts on it. What a kernel does not have is passed by.
var masked = []string{
	"acpi", "asound", "bootconfig", "cmdline", "config.gz", "driver", "interrupts", "iomem", "ioports", "kallsyms", "kcore",
	"key-users", "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "mdstat", "modules", "mtd",
	"mtrr", "partitions", "sched_debug", "scsi", "slabinfo", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo",
}

// readOnly is what of /proc may be read and not written.
var readOnly = []string{"bus", "fs", "irq", "sys", "tty"}

func (w *world) mountProc() error {
	if err := mountAt(w.root, "proc", "proc", attrPlain); err != nil {
		return err
	}
	proc, err := ensureDir(w.root, "proc", 0o555)
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	for _, name := range readOnly {
		if err := freezePath(proc, name); err != nil {
			return failed(name, err)
		}
	}
	return maskAll(proc)
}

// freezePath makes what is at a path read only.
func freezePath(proc int, name string) error {
	at, err := unix.Openat(proc, name, pathFlags, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	mount, err := clone(proc, name)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if err := restrict(mount, attrPlain|attrRead); err != nil {
		return err
	}
	return attach(mount, at)
}

// maskAll puts an empty directory on directories and /dev/null on files.
func maskAll(proc int) error {
	for _, name := range masked {
		at, err := unix.Openat(proc, name, pathFlags, 0)
		if err == unix.ENOENT {
			continue
		}
		if err == nil {
			err = mask(at)
			unix.Close(at)
		}
		if err != nil {
			return failed("mask "+name, err)
		}
	}
	return nil
}

func mask(at int) error {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	mount, err := cover(st.Mode)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	return attach(mount, at)
}

func cover(mode uint32) (int, error) {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return newMount("tmpfs", attrPlain|attrRead, option{"size", "4k"}, option{"mode", "0555"})
	}
	return cloneDevice("null")
}
