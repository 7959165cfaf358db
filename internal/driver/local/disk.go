package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// A disk limit is either hard, as the size of a file system, or watched: the driver measures the files of the instance
// from time to time and ends all its processes if they take too much. The files stay, so that they can be read and
// deleted.
//
// Watching is best effort. It counts files with a name, and deleted files that a process has open. Between two
// measurements an instance can exceed its limit. A deleted file is not counted if its only descriptor is in the queue of
// a socket.

// errDeep is the error for a directory tree that is nested too deeply to be measured.
var errDeep = errors.New("its folders are nested too deeply to be measured")

// maxDepth limits the nesting of directories. No path that programs can use is as deep.
const maxDepth = 1000

// disks holds instances to their disk limits: by an image for each, or by measuring.
type disks struct{ d *Driver }

// check checks the disk use of one running instance. It ends the instance's processes if a watched limit is
// exceeded.
func (ds disks) check(ctx context.Context, p *instanceDir, r record) error {
	if r.Limits.DiskBytes <= 0 {
		return nil
	}
	alive, err := ds.d.processes.live(p)
	if err != nil || alive == nil {
		return err
	}
	if r.Limits.DiskHard {
		return ds.checkFull(p, r, alive)
	}
	upper, err := ds.openUpper(p)
	if err != nil {
		return err
	}
	defer unix.Close(upper)
	m := meter{ctx: ctx, slots: ds.d.meters, limit: r.Limits.DiskBytes, most: inodesFor(r.Limits.DiskBytes)}
	defer m.release()
	if err = m.measure(upper, 0); err == nil {
		err = m.unlinked(ds.d, p, alive)
	}
	ds.d.opts.At("measured", p.id)
	var reason string
	switch {
	case errors.Is(err, errDeep):
		reason = errDeep.Error()
	case err != nil:
		return fmt.Errorf("measure files: %w", err)
	case m.files > m.most:
		reason = fmt.Sprintf("it had more files than its limit of %d", m.most)
	case m.sum > m.limit:
		reason = fmt.Sprintf("its files took more than its limit of %d MiB", m.limit>>20)
	}
	if reason == "" {
		return ds.forgetReason(p)
	}
	return ds.d.endProcesses(ctx, p, reason)
}

// checkFull records whether the disk of an instance with a hard limit is full or has failed. It ends no processes:
// their writes fail, and they can delete files.
func (ds disks) checkFull(p *instanceDir, r record, alive *running) error {
	reason, err := ds.problem(p, r, alive)
	if err != nil {
		return ignoreMissing(err)
	}
	switch reason {
	case p.reason():
		return nil
	case "":
		return ds.forgetReason(p)
	}
	return p.setReason(reason)
}

// problem describes, for people, that the disk of a running instance is full or has failed. It returns an empty
// string otherwise.
func (ds disks) problem(p *instanceDir, r record, alive *running) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs("/proc/"+strconv.Itoa(alive.pid)+"/root", &st); err != nil {
		return "", err
	}
	free, total := int64(st.Bavail)*st.Bsize, int64(st.Blocks)*st.Bsize
	switch {
	case failedDisk(ds.d.runs.lastRun(p).Device):
		return "its disk has failed: files may not have been written (is the server's disk full?); make room there and restart the sandbox", nil
	case free < min(total/100, 16<<20):
		return fmt.Sprintf("its disk is full: %d of %d MiB are left; delete files", free>>20, r.Limits.DiskBytes>>20), nil
	case st.Ffree < min(st.Files/100, 64):
		return fmt.Sprintf("its disk is full: %d of %d files are left; delete files", st.Ffree, st.Files), nil
	}
	return "", nil
}

// failedDisk reports whether the kernel has recorded errors of the file system on a device.
func failedDisk(device string) bool {
	if device == "" {
		return false
	}
	data, err := os.ReadFile("/sys/fs/ext4/" + filepath.Base(device) + "/errors_count")
	return err == nil && strings.TrimSpace(string(data)) != "0"
}

// ended is part of every reason that endProcesses records, before the time.
const ended = "; its processes were ended at "

// forgetReason removes the reason of an instance that is within its limits. A reason of endProcesses stays for the time
// of 40 measurements, 10 minutes by default, because the end of the processes may have freed the space at once.
func (ds disks) forgetReason(p *instanceDir) error {
	info, err := os.Stat(p.join(reasonName))
	if err == nil && time.Since(info.ModTime()) < 40*ds.d.opts.DiskEvery && strings.Contains(p.reason(), ended) {
		return nil
	}
	return p.setReason("")
}

// endProcesses ends the processes of an instance and records the reason with the time.
func (d *Driver) endProcesses(ctx context.Context, p *instanceDir, reason string) error {
	reason += ended + time.Now().UTC().Format(time.TimeOnly) + " UTC"
	d.opts.Log.Warn("end an instance's processes", "instance", p.id, "reason", reason)
	if err := p.setReason(reason); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := d.Guest(ctx, p.id)
	if errors.Is(err, driver.ErrNotRunning) || errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(conn.KillAll(ctx), conn.Close())
}

// meterSlots is the number of instances that are measured at the same time.
const meterSlots = 4

// meter adds up the disk space of files until it exceeds the limit. It pauses at least half of the time. While it works
// it has one of the slots that all meters share. It gives the slot back regularly, so that an instance with many files
// does not delay the others.
type meter struct {
	ctx         context.Context
	slots       chan struct{}
	limit, sum  int64 // bytes
	most, files int64 // maximum and current number of files
	begun       time.Time
	seen        int
	working     bool // it has a slot
}

func (m *meter) measure(dir, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	f, err := reopen(dir)
	if err != nil {
		return passUnreadable(err)
	}
	defer f.Close()
	for m.sum <= m.limit && m.files <= m.most {
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			if err := m.add(dir, e.Name(), depth); err != nil {
				return err
			}
		}
		if err == io.EOF || len(entries) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) add(dir int, name string, depth int) error {
	if err := m.pause(); err != nil {
		return err
	}
	m.files++
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return passUnreadable(err)
	}
	m.sum += st.Blocks * 512 / int64(max(st.Nlink, 1))
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	m.sum += st.Blocks*512 - st.Blocks*512/int64(max(st.Nlink, 1)) // a directory counts in full: it has only one name
	sub, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return passUnreadable(err)
	}
	defer unix.Close(sub)
	return m.measure(sub, depth+1)
}

// pause waits for a slot. After every 512 files it gives the slot back and pauses for as long as the files took.
func (m *meter) pause() error {
	if !m.working {
		select {
		case m.slots <- struct{}{}:
			m.working, m.begun = true, time.Now()
		case <-m.ctx.Done():
			return m.ctx.Err()
		}
	}
	if m.seen++; m.seen%512 != 0 {
		return nil
	}
	m.release()
	select {
	case <-time.After(time.Since(m.begun)):
		return nil
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
}

func (m *meter) release() {
	if m.working {
		<-m.slots
		m.working = false
	}
}

// unlinked adds the deleted files that a process of the instance has open.
func (m *meter) unlinked(d *Driver, p *instanceDir, alive *running) error {
	g, err := p.groupOf(alive)
	if err != nil {
		return err
	}
	pids, err := d.others(g, alive)
	if err != nil {
		return ignoreMissing(err)
	}
	seen := map[uint64]bool{}
	for _, pid := range pids {
		if err := m.openFiles("/proc/"+strconv.Itoa(pid), seen); err != nil {
			return err
		}
	}
	return nil
}

// openFiles adds the deleted files that one process has open or mapped.
func (m *meter) openFiles(process string, seen map[uint64]bool) error {
	for _, dir := range []string{process + "/fd", process + "/map_files"} {
		f, err := os.Open(dir)
		if err != nil {
			continue // the process has ended
		}
		names, _ := f.Readdirnames(-1)
		f.Close()
		for _, name := range names {
			if err := m.pause(); err != nil {
				return err
			}
			var st unix.Stat_t
			path := dir + "/" + name
			if unix.Stat(path, &st) != nil || st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || seen[st.Ino] {
				continue
			}
			var fs unix.Statfs_t
			if unix.Statfs(path, &fs) != nil || fs.Type == unix.TMPFS_MAGIC { // a tmpfs counts as memory
				continue
			}
			seen[st.Ino] = true
			m.sum += st.Blocks * 512
			m.files++
		}
	}
	return nil
}

// passUnreadable returns nil for errors about files that no longer exist or that an ordinary user cannot read.
func passUnreadable(err error) error {
	for _, pass := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES} {
		if errors.Is(err, pass) {
			return nil
		}
	}
	return err
}

// openUpper opens the upper layer of an instance without an image.
func (ds disks) openUpper(p *instanceDir) (int, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), fsDir+"/upper", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the instance's files: %w", os.NewSyscallError("openat", err))
	}
	return fd, nil
}
