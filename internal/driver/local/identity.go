package local

import (
	"os"
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

// setupCaps are what an ordinary user's helper needs to make its world. Root inside has all of them.
var setupCaps = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN,
	unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SYS_RESOURCE,
}

// attributes are how to become that identity.
func (i *identity) attributes() *syscall.SysProcAttr {
	if i.uids == nil {
		return &syscall.SysProcAttr{
			UidMappings: []syscall.SysProcIDMap{{ContainerID: agentID, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: agentID, HostID: os.Getegid(), Size: 1}},
			AmbientCaps: setupCaps,
		}
	}
	all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: i.uids.base, Size: rangeSize}}
	return &syscall.SysProcAttr{
		UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{Uid: 0, Gid: 0},
	}
}
