package files

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Owner is the user that operations run as, in numbers of this machine. When it is not Set they run as
// the process itself.
type Owner struct {
	UID, GID int
	Set      bool
}

// uid is the user whose files are its own.
func (o Owner) uid() int {
	if o.Set {
		return o.UID
	}
	return unix.Geteuid()
}

// run calls do with the owner's identity towards file systems, so that the kernel itself refuses what
// that user may not do, and new files are the user's own. Identity is a matter of one thread: do runs on
// a goroutine that has a thread to itself, and a thread that did not come back from being somebody else
// is thrown away. do must not start goroutines or processes.
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

// identity is what a thread was before.
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

// become takes the owner's identity on this thread. Groups go first and caps are looked at last: a
// process that is not root keeps the capabilities that let it pass by permissions, so it may not do this.
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

// setFS sets both ids and reads them back: the calls themselves do not fail.
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

// fsCaps let a thread pass by the permissions of files.
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
