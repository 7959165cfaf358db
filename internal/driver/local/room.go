package local

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// An instance whose disk is full must be able to start, so that its files can be deleted. A start needs a few blocks and
// files. The kernel reserves blocks in each file system; lendRoom makes them usable during the start. For the files, each
// image has spare files in a folder outside of the instance's root; lendRoom deletes some of them.

const (
	lentBlocks = 64 // blocks that a start may take on a full disk
	lentFiles  = 4  // files that a start may take on a full disk
	spareDir   = "spare"
	spareFiles = 64
)

// lendRoom makes room for a start if the disk is full. Call end after the start, to reserve the blocks again. If there is
// much room, lendRoom makes deleted spare files again.
func (i *image) lendRoom() (end func()) {
	var st unix.Statfs_t
	if unix.Fstatfs(i.mount, &st) != nil {
		return func() {}
	}
	switch {
	case st.Ffree < lentFiles:
		i.eachSpare(func(dir int, name string, left *int) {
			if *left < lentFiles && unix.Unlinkat(dir, name, 0) == nil {
				*left++
			}
		})
	case st.Ffree > 2*spareFiles && st.Bavail > 2*lentBlocks:
		i.eachSpare(func(dir int, name string, _ *int) {
			if fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
				unix.Close(fd)
			}
		})
	}
	if st.Bavail >= lentBlocks {
		return func() {}
	}
	path := "/sys/fs/ext4/" + i.device + "/reserved_clusters"
	before, err := os.ReadFile(path)
	if err != nil {
		return func() {}
	}
	lent := uint64(0)
	if st.Bfree > lentBlocks {
		lent = st.Bfree - lentBlocks
	}
	_ = os.WriteFile(path, strconv.AppendUint(nil, lent, 10), 0)
	return func() { _ = os.WriteFile(path, before, 0) }
}

// eachSpare calls do for the name of every spare file, with a counter for do that starts at zero.
func (i *image) eachSpare(do func(dir int, name string, counter *int)) {
	_ = unix.Mkdirat(i.mount, spareDir, 0o700)
	dir, err := unix.Openat(i.mount, spareDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	counter := 0
	for n := range spareFiles {
		do(dir, strconv.Itoa(n), &counter)
	}
}
