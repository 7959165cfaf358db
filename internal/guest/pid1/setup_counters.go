package pid1

import "github.com/berthdev/berth/internal/guest/unix"

// The limits of resources that the kernel counts per user. They apply to each user of the instance. The users together
// are limited by the host's limits for one user, because the server starts the helper as a host user that no other
// instance has. With a limit of zero, commands cannot use the resource.
const (
	maxInstances = "512"     // inotify instances
	maxWatches   = "65536"   // inotify watches
	maxTerminals = "64"      // terminals of the whole instance; the host has 4,096
	maxPending   = 8192      // pending signals, timers included
	maxQueues    = 800 << 10 // bytes of POSIX message queues
)

// kernelSettings are values of files in /proc/sys. Those in user apply to the instance's user namespace, those in net
// to its network namespace. Files that the kernel does not have are skipped.
var kernelSettings = []struct{ path, value string }{
	{"user/max_inotify_instances", maxInstances},
	{"user/max_inotify_watches", maxWatches},
	{"user/max_fanotify_groups", "0"},
	{"user/max_fanotify_marks", "0"},
	{"user/max_user_namespaces", "0"},
	{"user/max_mnt_namespaces", "0"},
	{"user/max_pid_namespaces", "0"},
	{"user/max_net_namespaces", "0"},
	{"user/max_ipc_namespaces", "0"},
	{"user/max_uts_namespaces", "0"},
	{"user/max_cgroup_namespaces", "0"},
	{"user/max_time_namespaces", "0"},
	// The sizes of one socket's buffers. The memory cgroup limits all buffers together.
	{"net/ipv4/tcp_rmem", "4096 131072 1048576"},
	{"net/ipv4/tcp_wmem", "4096 16384 1048576"},
	{"net/core/somaxconn", "1024"},
	{"net/core/optmem_max", "20480"},
	{"net/core/tstamp_allow_data", "0"}, // no times of sent messages, which the kernel would queue without a limit
}

// counters writes kernelSettings. No mount can be made after it: making a mount needs a mount namespace for a moment,
// and their maximum is then zero.
func (w *world) counters() error {
	for _, s := range kernelSettings {
		if err := writeSetting(w.sys, s.path, s.value); err != nil {
			return failed(s.path, err)
		}
	}
	return unix.Close(w.sys)
}

func writeSetting(sys int, path, value string) error {
	fd, err := unix.Openat(sys, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.EACCES { // this kernel has the setting only for the whole machine
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return writeAll(fd, []byte(value))
}
