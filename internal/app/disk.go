package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
)

const (
	reserveFile = "disk.reserve"
	reserveSize = 8 << 20
	// minFreeBytes and minFreeInodes are the least free space for new work. Less free space is kept for deletes.
	minFreeBytes  = 16 << 20
	minFreeInodes = 512
	lowInodes     = 16 << 10
	diskInterval  = 5 * time.Second
)

// disk measures the file system of the data directory and keeps a reserve file there. A server that starts on a full
// disk removes the reserve file, so that the database can be opened and sandboxes can be deleted.
type disk struct {
	dir    string
	low    int64 // free space below which readiness warns
	log    *slog.Logger
	metric prometheus.Gauge
}

// space is the free space of a file system.
type space struct {
	bytes  int64
	inodes int64 // math.MaxInt64 if the file system has no fixed number of inodes
}

func (s space) full() bool { return s.bytes < minFreeBytes || s.inodes < minFreeInodes }

// free returns the free space that the server may use.
func (d *disk) free() (space, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(d.dir, &fs); err != nil {
		return space{}, fmt.Errorf("read the free space of %s: %w", d.dir, err)
	}
	left := space{bytes: int64(fs.Bavail) * fs.Bsize, inodes: math.MaxInt64}
	if fs.Files > 0 {
		left.inodes = int64(fs.Ffree)
	}
	return left, nil
}

// open removes the reserve file if the disk is full. It is called before anything is written.
func (d *disk) open() {
	free, err := d.free()
	if err != nil || !free.full() { // a missing directory is created later
		return
	}
	err = os.Remove(d.reservePath())
	d.log.Warn("the disk of the data directory is full: delete sandboxes ('berth rm'), or make room there",
		"data_dir", d.dir, "free_bytes", free.bytes, "free_inodes", free.inodes, "reserve_released", err == nil)
}

func (d *disk) reservePath() string { return filepath.Join(d.dir, reserveFile) }

// run measures the free space, and creates the reserve file when there is space for it, until the context ends.
func (d *disk) run(ctx context.Context) {
	tick := time.NewTicker(diskInterval)
	defer tick.Stop()
	for {
		free, err := d.free()
		if err == nil {
			d.metric.Set(float64(free.bytes))
		}
		if err == nil && free.bytes >= 2*minFreeBytes+reserveSize {
			d.fill(reserveSize)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// close creates a reserve file for the next start, a smaller one if there is little space. It is called after the
// database is closed, which frees the space of its log.
func (d *disk) close() {
	for size := int64(reserveSize); size >= reserveSize/4 && !d.fill(size); size /= 2 {
	}
}

// fill makes the reserve file at least as large as size, and reports whether it succeeded.
func (d *disk) fill(size int64) bool {
	if info, err := os.Stat(d.reservePath()); err == nil && info.Size() >= size {
		return true
	}
	f, err := os.OpenFile(d.reservePath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		d.log.Debug("no space is reserved in the data directory", "error", err)
		_ = os.Remove(f.Name())
		return false
	}
	return true
}

// explain returns the error of a start that failed because the disk is full, with the code server_disk_full. Other errors
// pass unchanged.
func (d *disk) explain(err error) error {
	if fault.CodeOf(err) != api.CodeServerDiskFull && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	e := fault.Errorf("start the server", api.CodeServerDiskFull, "there is too little space in the data directory %s: %w", d.dir, err)
	e.Hint = "Make room on its disk, or choose another directory with --data-dir (BERTH_DATA_DIR), and start the server again: nothing is lost."
	return e
}

// room returns an error if the disk is too full for new work.
func (d *disk) room() error {
	free, err := d.free()
	if err != nil || !free.full() {
		return nil
	}
	if free.bytes >= minFreeBytes {
		return fault.Errorf("check the disk", api.CodeServerDiskFull, "the file system of the server's data directory has room for %d more files, and %d are kept for deletes", free.inodes, minFreeInodes)
	}
	return fault.Errorf("check the disk", api.CodeServerDiskFull, "the server's data directory has %d bytes left, and %s are kept for deletes", free.bytes, config.FormatSize(minFreeBytes))
}

// check returns the check of the disk for /readyz.
func (d *disk) check(context.Context) api.Check {
	check := api.Check{Name: "disk", Status: "ok"}
	free, err := d.free()
	if err != nil {
		check.Status, check.Detail = "warning", err.Error()
		return check
	}
	if free.full() {
		check.Detail = "full: nothing new is begun; "
	}
	d.metric.Set(float64(free.bytes))
	check.Detail += fmt.Sprintf("%d bytes are free in %s", free.bytes, d.dir)
	if free.inodes < lowInodes {
		check.Detail += fmt.Sprintf(", and inodes for %d files", free.inodes)
	}
	if free.bytes < max(d.low, minFreeBytes) || free.inodes < lowInodes {
		check.Status = "warning"
		check.Fix = "Delete sandboxes that are not needed ('berth rm', with --no-save if their files are not needed either), prune versions, or make the disk larger. disk_low_water sets when this is reported."
	}
	return check
}
