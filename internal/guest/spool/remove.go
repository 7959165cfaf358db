package spool

import (
	"os"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/guest/unix"
)

// Remove removes the spool id from the directory root. A reader can still read the segment that it has open.
func Remove(root int, id string) error {
	dir, err := unix.Openat(root, id, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("openat", err)
	}
	f := os.NewFile(uintptr(dir), id)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		_ = unix.Unlinkat(dir, name, 0)
	}
	return os.NewSyscallError("unlinkat", unix.Unlinkat(root, id, unix.AT_REMOVEDIR))
}

// Prune removes the oldest spools in root until their number is at most most and their total size at most bytes.
// The instance must not run: all of its spools must have ended.
func Prune(root string, most int, bytes int64) error {
	dir, err := os.Open(root)
	if err != nil {
		return none(err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	all := make([]aged, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil && isSpool(e) {
			all = append(all, aged{e.Name(), info.ModTime(), sizeOf(root + "/" + e.Name())})
		}
	}
	slices.SortFunc(all, func(a, b aged) int { return b.at.Compare(a.at) })
	var total int64
	for i, s := range all {
		if total += s.size; i < most && total <= bytes {
			continue
		}
		if failed := Remove(int(dir.Fd()), s.id); err == nil {
			err = failed
		}
	}
	return err
}

type aged struct {
	id   string
	at   time.Time
	size int64
}

func sizeOf(dir string) (size int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}
