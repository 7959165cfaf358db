package local

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// agentID is the agent's uid and gid inside, and on the disk.
const agentID = 1000

// identity is who an instance's processes are on this machine.
type identity struct {
	uids *uidRange // nil: this process's own user
}

// identity takes uids for an instance.
func (d *Driver) identity() (*identity, error) {
	if d.opts.Tier == TierUser {
		return &identity{}, nil
	}
	uids, err := takeRange()
	return &identity{uids: uids}, err
}

// close lets go of the uids, which the instance's helper holds by then.
func (i *identity) close() {
	if i.uids != nil {
		i.uids.held.Close()
	}
}

// held is what the helper is to hold.
func (i *identity) held(nothing *os.File) *os.File {
	if i.uids == nil {
		return nothing
	}
	return i.uids.held
}

// setupCaps are what an ordinary user's helper needs to make its world. Root's has all of them.
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

// attributes are how a helper is started that becomes that identity.
//
// This process lends it its memory until it is executed: copying the tables of a large one would take longer
// than all else that a start takes. So nobody can wait in between for the uids to be mapped, and the
// helper is executed without any; what it may do in its namespaces comes along as ambient capabilities.
// It waits for its configuration, which is sent once the uids are there, and takes them then.
func (i *identity) attributes() *syscall.SysProcAttr {
	caps := allCaps
	if i.uids == nil {
		caps = setupCaps
	}
	return &syscall.SysProcAttr{Cloneflags: namespaces | unix.CLONE_VM | unix.CLONE_VFORK, AmbientCaps: caps}
}

// grant maps the uids and gids for a helper that was started.
func (i *identity) grant(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid)
	if i.uids == nil {
		return errors.Join(
			writeFile(dir, "setgroups", "deny"),
			writeFile(dir, "uid_map", mapping(agentID, os.Geteuid(), 1)),
			writeFile(dir, "gid_map", mapping(agentID, os.Getegid(), 1)))
	}
	all := mapping(0, i.uids.base, rangeSize)
	return errors.Join(writeFile(dir, "uid_map", all), writeFile(dir, "gid_map", all))
}

func mapping(inside, outside, size int) string { return fmt.Sprintln(inside, outside, size) }
