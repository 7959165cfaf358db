package pid1

import "github.com/berthdev/berth/internal/guest/unix"

// loopback brings up the loopback interface, the only one in the instance's network namespace.
func (w *world) loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

func (w *world) hostname() error {
	if w.config.Hostname == "" {
		return nil
	}
	return unix.Sethostname([]byte(w.config.Hostname))
}
