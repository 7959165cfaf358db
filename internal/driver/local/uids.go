package local

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// Each instance in TierRoot has a range of 65,536 uids. Ranges have numbers. To take a range, the driver locks one byte,
// at the offset of the number, in a file that only root can open and that all servers of a machine share. The instance's
// first process keeps the file open, so the lock ends with that process.
//
// Earlier versions of the server took a range by binding an abstract socket with its number. The driver still binds it,
// so that such servers do not take the range, and it does not take their ranges. Any user of the machine can bind such a
// name, so the driver ignores sockets that do not belong to root.
const (
	firstUID  = 0x10000000
	rangeSize = 1 << 16
	maxRanges = 1 << 15
)

// The path of the lock file. On a machine without a writable /run it is in the data directory. Servers with different
// data directories then notice each other only by the sockets.
const (
	runDir   = "/run/berth"
	uidsName = "uids.lock"
)

// uidRange is a range of uids that this process has taken.
type uidRange struct {
	lock *os.File // the open lock file
	name *os.File // the socket; nil: another user of the machine has bound its name
	base int      // first uid
}

func (r *uidRange) close() { closeAll(r.lock, r.name) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// takeRange takes a free range.
func (d *Driver) takeRange() (*uidRange, error) {
	lock, err := openUIDs(runDir, d.dir)
	if err != nil {
		return nil, fmt.Errorf("open uid ranges: %w", err)
	}
	start := rand.IntN(maxRanges)
	for i := range maxRanges {
		n := (start + i) % maxRanges
		name, err := holdRange(lock, n)
		if errors.Is(err, errTaken) {
			continue
		}
		if err != nil {
			lock.Close()
			return nil, fmt.Errorf("hold uid range: %w", err)
		}
		return &uidRange{lock: lock, name: name, base: firstUID + n*rangeSize}, nil
	}
	lock.Close()
	return nil, fmt.Errorf("%w: every uid range is in use", driver.ErrQuota)
}

// openUIDs opens the lock file in the first of the directories that only root can write to. It makes a directory that
// does not exist.
func openUIDs(dirs ...string) (*os.File, error) {
	var failure error
	for _, dir := range dirs {
		err := os.Mkdir(dir, 0o700)
		if err != nil && !errors.Is(err, os.ErrExist) {
			failure = errors.Join(failure, err)
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0 || st.Mode&0o022 != 0 {
			failure = errors.Join(failure, fmt.Errorf("%s is not a directory that only root can write to", dir))
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, uidsName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err == nil {
			return f, nil
		}
		failure = errors.Join(failure, err)
	}
	return nil, failure
}

// errTaken means that another instance has the range.
var errTaken = errors.New("the range is taken")

// holdRange takes the range with number n. It returns the socket, or nil if another user has bound its name. It returns
// errTaken if the range is in use.
func holdRange(lock *os.File, n int) (name *os.File, err error) {
	if err := lockByte(lock, n, unix.F_WRLCK); err != nil {
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, errTaken
		}
		return nil, err
	}
	name, err = bindName(n)
	if errors.Is(err, unix.EADDRINUSE) {
		if ofRoot, findErr := boundByRoot(rangeName(n)); ofRoot || findErr != nil {
			return nil, errors.Join(errTaken, lockByte(lock, n, unix.F_UNLCK))
		}
		return nil, nil
	}
	return name, err
}

// lockByte sets the lock on byte n. The lock belongs to the open file, not to this process.
func lockByte(f *os.File, n int, how int16) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: how, Whence: io.SeekStart, Start: int64(n), Len: 1})
}

func rangeName(n int) string { return "@berth-uid-" + strconv.Itoa(n) }

func bindName(n int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: rangeName(n)}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), rangeName(n)), nil
}
