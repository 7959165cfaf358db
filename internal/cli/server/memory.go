package server

import (
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Without the ballast, a server with a small heap that streams many turns spends a tenth of its time in garbage
// collection, and its events are late. The ballast is a block of memory that is never touched, so it takes no physical
// memory. The garbage collector counts it as used, and starts only after the heap has grown by that size.
const (
	maxBallast   = 128 << 20
	ballastShare = 16 // the ballast is at most one part in 16 of the machine's memory
)

// ballast returns the size of the ballast in bytes. It is zero if GOGC or GOMEMLIMIT is set.
func ballast(getenv func(string) string, memory uint64) uint64 {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return 0
	}
	return min(maxBallast, memory/ballastShare)
}

// memoryLimit returns the memory limit of this process in bytes.
func memoryLimit() uint64 {
	most := uint64(math.MaxUint64)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		most = uint64(info.Totalram) * uint64(info.Unit)
	}
	for _, limit := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(limit)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			most = min(most, n)
		}
	}
	return most
}
