package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// An instance has 65,536 uids of its own. Whoever has bound the socket of a range's number has the range;
// the instance's first process holds it, so that it is free when that process is gone.
const (
	firstUID  = 0x10000000
	rangeSize = 1 << 16
	maxRanges = 1 << 15
)

// uidRange is one that is held.
type uidRange struct {
	held *os.File
	base int
}

// takeRange finds a range nobody has.
func takeRange() (*uidRange, error) {
	start := rand.IntN(maxRanges)
	for i := range maxRanges {
		n := (start + i) % maxRanges
		held, err := holdRange(n)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &uidRange{held: held, base: firstUID + n*rangeSize}, nil
	}
	return nil, fmt.Errorf("%w: every uid range is in use", driver.ErrQuota)
}

func rangeName(n int) string { return "@berth-uid-" + strconv.Itoa(n) }

func holdRange(n int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hold uid range: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: rangeName(n)}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("hold uid range: %w", err)
	}
	return os.NewFile(uintptr(fd), rangeName(n)), nil
}
