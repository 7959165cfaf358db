package pid1

import "github.com/berthdev/berth/internal/guest/unix"

// masked lists the files and directories of /proc that show or change the state of the host. Those that the kernel does
// not have are skipped.
var masked = []string{
	"acpi", "asound", "bootconfig", "cmdline", "config.gz", "driver", "interrupts", "iomem", "ioports", "kallsyms", "kcore",
	"key-users", "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "mdstat", "modules", "mtd",
	"mtrr", "partitions", "sched_debug", "scsi", "slabinfo", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo",
}

// readOnly lists the files and directories of /proc that are mounted read-only.
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
	if w.sys, err = unix.Openat(proc, "sys", pathFlags|unix.O_DIRECTORY, 0); err != nil {
		return failed("sys", err)
	}
	for _, name := range readOnly {
		if err := freezePath(proc, name); err != nil {
			return failed(name, err)
		}
	}
	return w.maskAll(proc)
}

// freezePath mounts a path of /proc on itself, read-only.
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

// maskAll covers each directory in masked with an empty directory and each file with /dev/null.
func (w *world) maskAll(proc int) error {
	for _, name := range masked {
		at, err := unix.Openat(proc, name, pathFlags, 0)
		if err == unix.ENOENT {
			continue
		}
		if err == nil {
			err = w.mask(at)
			unix.Close(at)
		}
		if err != nil {
			return failed("mask "+name, err)
		}
	}
	return nil
}

func (w *world) mask(at int) error {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	mount, err := w.cover(st.Mode)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	return attach(mount, at)
}

func (w *world) cover(mode uint32) (int, error) {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return newMount("tmpfs", attrPlain|attrRead, option{"size", "4k"}, option{"mode", "0555"})
	}
	return cloneDevice(w.root, "dev/null")
}
