package cli

import (
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A server with a small heap that streams many turns would be collecting a tenth of the time, and its events late
// by then. Ballast is memory that is never touched, so that the machine does not give it; the collector takes it
// for used, and begins when as much again came to be.
const (
	mostBallast  = 128 << 20
	ballastShare = 16 // of the memory there is, one part
)

// ballast is how many bytes of it a server has. Whoever set the collector's own bounds wants those.
func ballast(getenv func(string) string, memory uint64) uint64 {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return 0
	}
	return min(mostBallast, memory/ballastShare)
}

// memoryHere is what this process may use at most, as far as it is told.
func memoryHere() uint64 {
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
