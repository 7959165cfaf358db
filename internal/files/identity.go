package files

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Owner is the user that operations run as. The ids are those of this machine. If Set is false, operations run as the
// user of this process.
type Owner struct {
	UID, GID int
	Set      bool
}

// uid returns the owner's user id.
func (o Owner) uid() int {
	if o.Set {
		return o.UID
	}
	return unix.Geteuid()
}

// run calls do with the owner's file system identity: the kernel then enforces the owner's permissions, and new files
// belong to the owner. The identity applies to one thread, so do runs in a goroutine that is locked to its thread. If
// the thread's identity cannot be restored, the thread ends. do must not start goroutines or processes.
func (o Owner) run(do func() error) error {
	if !o.Set {
		return do()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		own, err := self()
		if err == nil {
			if err = o.become(); err == nil {
				err = do()
			}
		}
		if own.restore() == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with the goroutine
		}
		done <- err
	}()
	return <-done
}

// identity is the identity of a thread before a change.
type identity struct {
	uid, gid int
	groups   []int
	known    bool
}

func self() (identity, error) {
	groups, err := unix.Getgroups()
	if err != nil {
		return identity{}, fmt.Errorf("read own groups: %w", err)
	}
	return identity{unix.Geteuid(), unix.Getegid(), groups, true}, nil
}

// become changes the identity of this thread to the owner. It returns an error if the thread still has capabilities
// that bypass permissions: a process that is not root keeps them.
func (o Owner) become() error {
	if err := setGroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := setFS(o.UID, o.GID); err != nil {
		return err
	}
	return checkCaps()
}

func (i identity) restore() error {
	if !i.known {
		return errors.New("identity not known")
	}
	if err := setFS(i.uid, i.gid); err != nil {
		return err
	}
	return setGroups(i.groups)
}

// setFS sets both file system ids and reads them back, because the system calls do not report failure.
func setFS(uid, gid int) error {
	for _, set := range []func() error{func() error { return unix.Setfsgid(gid) }, func() error { return unix.Setfsuid(uid) }} {
		if err := set(); err != nil {
			return fmt.Errorf("set identity: %w", err)
		}
	}
	nowUID, err := unix.SetfsuidRetUid(-1)
	if err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	nowGID, err := unix.SetfsgidRetGid(-1)
	if err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	if nowUID != uid || nowGID != gid {
		return fmt.Errorf("become %d:%d: the kernel left it at %d:%d: %w", uid, gid, nowUID, nowGID, unix.EPERM)
	}
	return nil
}

// fsCaps are the capabilities that bypass file permissions.
const fsCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_MKNOD

func checkCaps() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	if left := sets[0].Effective & fsCaps; left != 0 {
		return fmt.Errorf("capabilities %#x would pass by the user's permissions: %w", left, unix.EPERM)
	}
	return nil
}

// setGroups sets the supplementary groups of this thread only. The function in package unix sets those of all
// threads.
func setGroups(groups []int) error {
	ids := make([]uint32, len(groups))
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(ids)), uintptr(unsafe.Pointer(unsafe.SliceData(ids))), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
