package pid1

import (
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// devices are bind-mounted from the host if the server does not run as root: an ordinary user cannot make device nodes,
// also not in a user namespace. A server with root makes the whole /dev and sends it as a tree.
var devices = []string{"full", "null", "random", "tty", "urandom", "zero"}

var deviceLinks = []struct{ name, target string }{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
	{"ptmx", "pts/ptmx"},
}

func (w *world) mountDev() error {
	attached, err := w.attachDev()
	if err != nil {
		return err
	}
	dev, err := ensureDir(w.root, "dev", 0o755)
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	if !attached {
		if err := bindDevices(dev); err != nil {
			return err
		}
	}
	if err := mountAt(dev, "pts", "devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, w.ptsOptions()...); err != nil {
		return err
	}
	shm := orDefault(w.config.Limits.ShmBytes, defaultShm)
	return mountAt(dev, "shm", "tmpfs", attrPlain, option{"mode", "1777"}, option{"size", shm})
}

// attachDev mounts the server's tree at /dev, or an empty file system if there is no such tree.
func (w *world) attachDev() (attached bool, err error) {
	for i, t := range w.config.Trees {
		if t.Role != wire.RoleDev {
			continue
		}
		at, err := ensureDir(w.root, "dev", 0o755)
		if err != nil {
			return false, failed("dev", err)
		}
		defer unix.Close(at)
		return true, attach(w.trees[i], at)
	}
	attrs := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	return false, mountAt(w.root, "dev", "tmpfs", attrs, option{"mode", "0755"}, option{"size", "64k"}, option{"nr_inodes", "256"})
}

// bindDevices bind-mounts devices of the host in a /dev and makes the usual links.
func bindDevices(dev int) error {
	for _, name := range devices {
		if err := bindDevice(dev, name); err != nil {
			return failed(name, err)
		}
	}
	for _, l := range deviceLinks {
		if err := unix.Symlinkat(l.target, dev, l.name); err != nil {
			return failed(l.name, err)
		}
	}
	return nil
}

// ptsOptions returns the mount options of devpts. Terminals belong to the group tty if the instance has groups.
func (w *world) ptsOptions() []option {
	options := []option{{"newinstance", ""}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", maxTerminals}}
	if !w.config.Single {
		options = append(options, option{"gid", "5"})
	}
	return options
}

func bindDevice(dev int, name string) error {
	if err := createFile(dev, name, 0o600, nil); err != nil {
		return err
	}
	at, err := unix.Openat(dev, name, pathFlags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	mount, err := cloneDevice(unix.AT_FDCWD, "/dev/"+name)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	return attach(mount, at)
}

// The default sizes of the file systems in memory, in bytes. Their content also counts against the instance's memory
// limit.
const (
	defaultTmp = 512 << 20
	defaultShm = 64 << 20
	runSize    = 16 << 20
)

func orDefault(size uint64, otherwise uint64) string {
	if size == 0 {
		size = otherwise
	}
	return digits(int(size))
}

func (w *world) mountTemp() error {
	tmp := orDefault(w.config.Limits.TmpBytes, defaultTmp)
	if err := mountAt(w.root, "tmp", "tmpfs", attrSafe, option{"mode", "1777"}, option{"size", tmp}); err != nil {
		return err
	}
	run := orDefault(0, runSize)
	return mountAt(w.root, "run", "tmpfs", attrSafe, option{"mode", "0755"}, option{"size", run})
}
