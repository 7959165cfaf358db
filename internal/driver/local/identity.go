package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// agentID is the uid and gid of the agent inside an instance, and of its files on the disk.
const agentID = 1000

// identity determines the users of an instance's processes on this machine.
type identity struct {
	tier Tier
	uids *uidRange // the instance's own uids in TierRoot; nil in other tiers
}

// identity returns the identity for a new run of an instance. In TierRoot it takes a range of uids.
func (d *Driver) identity() (*identity, error) {
	if d.opts.Tier != TierRoot {
		return &identity{tier: d.opts.Tier}, nil
	}
	uids, err := d.takeRange()
	return &identity{TierRoot, uids}, err
}

// close releases this process's hold on the uids. The helper of a started instance still holds them.
func (i *identity) close() {
	if i.uids != nil {
		i.uids.close()
	}
}

// heldFiles returns the two files that the helper keeps open to hold the uids. It uses nothing for a file that is missing.
func (i *identity) heldFiles(nothing *os.File) []*os.File {
	held := []*os.File{nothing, nothing}
	if i.uids != nil {
		held[0] = i.uids.lock
	}
	if i.uids != nil && i.uids.name != nil {
		held[1] = i.uids.name
	}
	return held
}

// setupCaps are the capabilities that the helper needs in its user namespace in TierUser to set up the instance. In
// other tiers it has all capabilities.
var setupCaps = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN,
	unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SYS_RESOURCE,
}

var allCaps = func() (all []uintptr) {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		all = append(all, c)
	}
	return all
}()

// attributes returns the attributes for the start of a helper with this identity.
//
// The new process shares the server's memory until its exec, because to copy the page tables of a large server would
// take most of the time of a start. The server is suspended for that time, so it cannot map the uids before the exec,
// and the helper starts without mapped uids. Ambient capabilities keep its rights in its namespaces across the exec.
// The helper waits for its configuration, which the server sends after it has mapped the uids, and then takes its uids.
func (i *identity) attributes() *syscall.SysProcAttr {
	caps := allCaps
	if i.tier == TierUser {
		caps = setupCaps
	}
	return &syscall.SysProcAttr{Cloneflags: namespaces | unix.CLONE_VM | unix.CLONE_VFORK, AmbientCaps: caps}
}

// start runs do on this thread as the first uid of the instance. The kernel charges a user namespace, and its counters
// per user (inotify, queued signals, message queues), to the user who makes the namespace. So each instance has its own
// counters, and does not share those of root. If the thread cannot become root again, it stays locked to its goroutine
// and ends with it.
func (i *identity) start(do func() error) error {
	if i.uids == nil {
		return do()
	}
	runtime.LockOSThread()
	if err := becomeUser(i.uids.base); err != nil {
		return errors.Join(err, becomeRoot())
	}
	err := do()
	if back := becomeRoot(); back != nil {
		return errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return err
}

// becomeUser changes the user of this thread only. Root stays the saved user, so that the thread can become root again.
// The capabilities stay effective, so that the thread may make user namespaces even if only root may.
func becomeUser(uid int) error {
	if err := setThreadUsers(uid, uid, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for i := range data {
		data[i].Effective = data[i].Permitted
	}
	return os.NewSyscallError("capset", unix.Capset(&header, &data[0]))
}

func becomeRoot() error { return setThreadUsers(0, 0, 0) }

// setThreadUsers calls setresuid for this thread only. The function of package syscall changes all threads.
func setThreadUsers(real, effective, saved int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(real), uintptr(effective), uintptr(saved)); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return nil
}

// mapIDs maps the uids and gids of a started helper's user namespace.
func (i *identity) mapIDs(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid)
	switch i.tier {
	case TierUser:
		return errors.Join(
			writeFile(dir, "setgroups", "deny"),
			writeFile(dir, "uid_map", mapping(agentID, os.Geteuid(), 1)),
			writeFile(dir, "gid_map", mapping(agentID, os.Getegid(), 1)))
	case TierMapped:
		return errors.Join(writeFile(dir, "uid_map", sharedMapping), writeFile(dir, "gid_map", sharedMapping))
	}
	all := mapping(0, i.uids.base, rangeSize)
	return errors.Join(writeFile(dir, "uid_map", all), writeFile(dir, "gid_map", all))
}

// mappedRoot is the uid, in the server's user namespace, of the user root in instances of TierMapped.
const mappedRoot = 1

// sharedMapping maps the agent of an instance to uid 0 of the server's user namespace, which is the server's user. In
// TierUser the agent is the server's user too, so its files have the same owner in both tiers. Other users of the
// instance get the following ids.
var sharedMapping = mapping(0, mappedRoot, agentID) + mapping(agentID, 0, 1) + mapping(agentID+1, agentID+1, rangeSize-agentID-1)

func mapping(inside, outside, size int) string { return fmt.Sprintln(inside, outside, size) }
