package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// A disk limit that is not a file system's own is watched: what an instance wrote is measured from time to
// time, and when it is too much, all its processes are ended. Its files stay, to be looked at and removed.

// errDeep is a tree that is nested too deeply to be measured.
var errDeep = errors.New("its folders are nested too deeply to be measured")

// maxDepth is deeper than any path that programs can use.
const maxDepth = 1000

// checkDisk measures one instance and ends its processes if it uses too much.
func (d *Driver) checkDisk(ctx context.Context, p *place, r record) error {
	if r.Limits.DiskBytes <= 0 || r.Limits.DiskHard {
		return nil
	}
	upper, err := d.openUpper(p)
	if err != nil {
		return err
	}
	defer unix.Close(upper)
	m := meter{ctx: ctx, limit: r.Limits.DiskBytes}
	err = m.measure(upper, 0)
	var reason string
	switch {
	case errors.Is(err, errDeep):
		reason = errDeep.Error() + "; its processes were ended"
	case err != nil:
		return fmt.Errorf("measure files: %w", err)
	case m.sum > m.limit:
		reason = fmt.Sprintf("its files take more than its limit of %d MiB; its processes were ended", m.limit>>20)
	}
	if reason == "" {
		return p.setReason("")
	}
	return d.punish(ctx, p, reason)
}

// punish ends the processes of an instance, for a reason that is kept.
func (d *Driver) punish(ctx context.Context, p *place, reason string) error {
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

// meter adds up what files take on the disk, until it is too much. It works half of the time at most.
type meter struct {
	ctx        context.Context
	limit, sum int64
	begun      time.Time
	seen       int
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
	for m.sum <= m.limit {
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
	if err := m.rest(); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return passUnreadable(err)
	}
	m.sum += st.Blocks * 512 / int64(max(st.Nlink, 1))
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	m.sum += st.Blocks*512 - st.Blocks*512/int64(max(st.Nlink, 1)) // a directory's links are no further names
	sub, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return passUnreadable(err)
	}
	defer unix.Close(sub)
	return m.measure(sub, depth+1)
}

// rest pauses for as long as the last files took.
func (m *meter) rest() error {
	if m.seen == 0 {
		m.begun = time.Now()
	}
	if m.seen++; m.seen < 512 {
		return nil
	}
	m.seen = 0
	select {
	case <-time.After(time.Since(m.begun)):
		return nil
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
}

// passUnreadable is nil for what vanished meanwhile, or what an ordinary user may not look into.
func passUnreadable(err error) error {
	for _, pass := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES} {
		if errors.Is(err, pass) {
			return nil
		}
	}
	return err
}

// openUpper opens the upper layer of an instance whose files lie in a plain directory.
func (d *Driver) openUpper(p *place) (int, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), fsDir+"/upper", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the instance's files: %w", os.NewSyscallError("openat", err))
	}
	return fd, nil
}
