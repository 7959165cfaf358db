package local

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

// The device nodes in an instance's /dev. Each instance has its own inodes on its own tmpfs, so that other instances
// do not see a lock or a watch on them. The server makes them, because a process in a user namespace cannot. The tmpfs
// belongs to the machine's user namespace; otherwise the kernel would refuse to open the nodes.
var deviceNodes = []struct {
	name         string
	major, minor uint32
}{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}

var deviceLinks = []struct{ name, target string }{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
	{"ptmx", "pts/ptmx"},
}

// devices adds the mount of the instance's /dev to t.
func (t *trees) devices(userns int) error {
	dev, err := mountDevices()
	if err != nil {
		return fmt.Errorf("make /dev: %w", err)
	}
	err = errors.Join(makeDevices(dev), mapDevices(dev, userns))
	if err != nil {
		unix.Close(dev)
		return fmt.Errorf("make /dev: %w", err)
	}
	t.append(layer{role: wire.RoleDev}, dev)
	return nil
}

func mountDevices() (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	for _, o := range [][2]string{{"source", "tmpfs"}, {"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "256"}} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, os.NewSyscallError("fsconfig "+o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	return mount, os.NewSyscallError("fsmount", err)
}

// makeDevices makes the nodes, links and directories of /dev. The helper mounts file systems on the directories.
func makeDevices(dev int) error {
	for _, n := range deviceNodes {
		if err := unix.Mknodat(dev, n.name, unix.S_IFCHR|0o666, int(unix.Mkdev(n.major, n.minor))); err != nil {
			return fmt.Errorf("mknod %s: %w", n.name, err)
		}
		if err := unix.Fchmodat(dev, n.name, 0o666, 0); err != nil { // mknod applies the umask
			return fmt.Errorf("chmod %s: %w", n.name, err)
		}
	}
	for _, l := range deviceLinks {
		if err := unix.Symlinkat(l.target, dev, l.name); err != nil {
			return fmt.Errorf("link %s: %w", l.name, err)
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := unix.Mkdirat(dev, name, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	return nil
}

// mapDevices maps the owner of a /dev to the root of the instance. Kernels before 6.3 cannot map the owners of a
// tmpfs. There the owner stays unmapped: the instance can use the nodes, but cannot change /dev.
func mapDevices(dev, userns int) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Propagation: unix.MS_PRIVATE, Userns_fd: uint64(userns)}
	err := unix.MountSetattr(dev, "", unix.AT_EMPTY_PATH, &attr)
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return os.NewSyscallError("mount_setattr", err)
}
