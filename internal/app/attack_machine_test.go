package app_test

import (
	"fmt"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit"
)

// makeQueue makes a message queue that everybody may use.
func makeQueue(name string) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	old := unix.Umask(0)
	defer unix.Umask(old)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(p)), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o666, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func unlinkQueue(name string) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(p)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// loopDevice makes a disk of a file, and returns its number.
func loopDevice(t *testing.T, path string) uint64 {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var device *os.File
	testkit.Eventually(t, patience, func() error { // another process may be faster
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return err
		}
		if device, err = os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDONLY, 0); err != nil {
			return err
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR}}
		if err := unix.IoctlLoopConfigure(int(device.Fd()), &config); err != nil {
			device.Close()
			return err
		}
		return nil
	})
	t.Cleanup(func() { _ = device.Close() }) // which ends it
	var st unix.Stat_t
	if err := unix.Fstat(int(device.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Rdev
}
