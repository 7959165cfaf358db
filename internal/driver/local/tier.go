package local

import (
	"os"
	"strconv"
	"strings"
)

// Tier is a level of isolation. It depends on the rights of the server.
type Tier string

// The tiers.
const (
	TierRoot   Tier = "root"   // the server is root: each instance has its own uids, idmapped layers and cgroups
	TierMapped Tier = "mapped" // the server is root of a user namespace: instances share its uids; limits need delegated cgroups
	TierUser   Tier = "user"   // the server is an ordinary user: instances have its uid; limits need delegated cgroups
	TierNone   Tier = "none"   // this machine cannot run instances
)

// possibleTier returns the best tier that this process could have.
func possibleTier() Tier {
	uids, _ := os.ReadFile("/proc/self/uid_map")
	gids, _ := os.ReadFile("/proc/self/gid_map")
	return tierOf(os.Geteuid(), string(uids), string(gids))
}

// tierOf returns the best tier for a process with these maps of its user namespace. The machine's own user namespace maps
// every id to itself.
func tierOf(euid int, uidMap, gidMap string) Tier {
	switch {
	case euid != 0:
		return TierUser
	case mapsAll(uidMap) && mapsAll(gidMap):
		return TierRoot
	case mappedIDs(uidMap) >= rangeSize && mappedIDs(gidMap) >= rangeSize:
		return TierMapped
	}
	return TierUser
}

func mapsAll(text string) bool {
	return strings.Join(strings.Fields(text), " ") == "0 0 4294967295"
}

// mappedIDs returns the number of ids from 0 on that a map contains without a gap.
func mappedIDs(text string) (n int) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return 0
		}
		first, err := strconv.Atoi(fields[0])
		size, failed := strconv.Atoi(fields[2])
		if err != nil || failed != nil || first != n {
			return n
		}
		n += size
	}
	return n
}

// Explain describes the tier, for people.
func (t Tier) Explain() string {
	switch t {
	case TierRoot:
		return "tier root: each sandbox has its own users, and limits of CPU, memory and processes"
	case TierMapped:
		return "tier mapped: sandboxes have a root user inside and share the server's subordinate ids, with the limits that were delegated to it"
	case TierUser:
		return "tier user: all sandboxes run as the server's user, with the limits that were delegated to it"
	}
	return "tier none: this machine cannot run sandboxes"
}
