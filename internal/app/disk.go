package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

const (
	reserveFile = "disk.reserve"
	reserveSize = 8 << 20
	// diskFull is the free space below which nothing new is begun: what is left is for deletes.
	diskFull  = 16 << 20
	diskEvery = 5 * time.Second
)

// disk watches the file system of the data directory. A file there reserves some space: a server that starts on
// a full disk gives it up, so that the database can be opened and sandboxes can be deleted.
type disk struct {
	dir    string
	low    int64 // free space below which readiness warns
	log    *slog.Logger
	metric prometheus.Gauge
}

// free returns how many bytes the server may still write.
func (d *disk) free() (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(d.dir, &fs); err != nil {
		return 0, fmt.Errorf("read the free space of %s: %w", d.dir, err)
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

// open gives the reserve up if the disk is full. It comes before anything is written.
func (d *disk) open() {
	free, err := d.free()
	if err != nil || free >= diskFull { // a directory that is missing is made later
		return
	}
	err = os.Remove(d.reserve())
	d.log.Warn("the disk of the data directory is full: delete sandboxes ('berth rm'), or make room there",
		"data_dir", d.dir, "free_bytes", free, "reserve_released", err == nil)
}

func (d *disk) reserve() string { return filepath.Join(d.dir, reserveFile) }

// run measures the free space and makes the reserve anew once there is room for it.
func (d *disk) run(ctx context.Context) {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		free, err := d.free()
		if err == nil {
			d.metric.Set(float64(free))
		}
		if err == nil && free >= 2*diskFull+reserveSize {
			d.fill(reserveSize)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// close leaves a reserve for the next start, in what the database's log gave back if there is nothing else.
func (d *disk) close() {
	for size := int64(reserveSize); size >= reserveSize/4 && !d.fill(size); size /= 2 {
	}
}

// fill makes the reserve at least this large, and reports whether it is.
func (d *disk) fill(size int64) bool {
	if info, err := os.Stat(d.reserve()); err == nil && info.Size() >= size {
		return true
	}
	f, err := os.OpenFile(d.reserve(), os.O_RDWR|os.O_CREATE, 0o600)
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

// room refuses new work on a full disk.
func (d *disk) room() error {
	free, err := d.free()
	if err != nil || free >= diskFull {
		return nil
	}
	return sandbox.Errorf("check the disk", api.CodeServerDiskFull, "the server's data directory has %d bytes left, and %s are kept for deletes", free, config.FormatSize(diskFull))
}

// check is the disk's part of readiness.
func (d *disk) check(context.Context) api.Check {
	check := api.Check{Name: "disk", Status: "ok"}
	free, err := d.free()
	switch {
	case err != nil:
		check.Status, check.Detail = "warning", err.Error()
		return check
	case free < diskFull:
		check.Detail = "full: nothing new is begun; "
	}
	d.metric.Set(float64(free))
	check.Detail += fmt.Sprintf("%d bytes are free in %s", free, d.dir)
	if free < max(d.low, diskFull) {
		check.Status = "warning"
		check.Fix = "Delete sandboxes that are not needed ('berth rm', with --no-save if their files are not needed either), prune versions, or make the disk larger. disk_low_water sets when this is reported."
	}
	return check
}
