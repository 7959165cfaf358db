package local

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// Guest connects to the helper of a running instance.
func (d *Driver) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := d.find(id)
	if err != nil {
		return nil, err
	}
	conn, err := d.connect(p)
	if err != nil {
		p.Close()
		return nil, err
	}
	return conn, nil
}

// connect gives the place to the connection, which closes it.
func (d *Driver) connect(p *place) (guest.Conn, error) {
	alive, err := d.live(p)
	if err != nil {
		return nil, err
	}
	if alive == nil || d.frozen(p, alive) {
		return nil, driver.ErrNotRunning
	}
	first, err := d.firstUID(alive)
	if err != nil {
		return nil, err
	}
	opts := guest.Options{Spools: p.join(spoolDir), Owner: -1, Root: -1, Patience: d.opts.ReaderPatience}
	if first >= 0 {
		opts.Owner, opts.Root = first+agentID, first
	}
	return guest.Open(p.dir, opts), nil
}

// firstUID is where the uids of a running instance begin on this machine; -1 says that it has none of its
// own.
func (d *Driver) firstUID(alive *running) (int, error) {
	if d.opts.Tier == TierUser {
		return -1, nil
	}
	if first := alive.first.Load(); first > 0 {
		return int(first), nil
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(alive.pid) + "/uid_map")
	if err != nil {
		return 0, fmt.Errorf("read the instance's uids: %w", err)
	}
	fields := strings.Fields(string(data))
	if len(fields) != 3 || !alive.alive() {
		return 0, driver.ErrNotRunning
	}
	first, err := strconv.Atoi(fields[1])
	if err != nil || first < firstUID {
		return 0, fmt.Errorf("read the instance's uids: %q is no range of ours", data)
	}
	alive.first.Store(int64(first))
	return first, nil
}

// Output reads a process's spool from the disk.
func (d *Driver) Output(ctx context.Context, id driver.ID, process string, after int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) {
		p, err := d.find(id)
		if err != nil {
			yield(guest.Chunk{}, err)
			return
		}
		defer p.Close()
		guest.Output(ctx, p.join(spoolDir), process, after, d.opts.ReaderPatience)(yield)
	}
}

// roots are where an instance's files are, by the name of their root.
var roots = map[string]string{files.WorkingDir: "workspace", files.HomeDir: "home/agent"}

// Files opens a root of the instance's files: within its own root while it runs, else in its upper layer.
// Once it is started or stopped, what was opened before changes nothing any more.
func (d *Driver) Files(ctx context.Context, id driver.ID, root string) (files.FS, error) {
	path, ok := roots[root]
	if !ok {
		return nil, fmt.Errorf("%w: no root %q", driver.ErrInvalid, root)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := d.find(id)
	if err != nil {
		return nil, err
	}
	alive, err := d.live(p)
	var dir *files.Dir
	switch {
	case err != nil:
	case alive != nil:
		dir, err = d.liveFiles(alive, path)
	default:
		dir, err = d.restingFiles(ctx, p, path)
	}
	if err != nil {
		defer p.Close()
		return nil, d.unopened(p, alive, err)
	}
	return d.guarded(dir, p, alive), nil
}

// liveFiles looks through the root of the instance's first process. It is there when the instance is
// frozen, too, and nobody has to be asked.
func (d *Driver) liveFiles(alive *running, path string) (*files.Dir, error) {
	first, err := d.firstUID(alive)
	if err != nil {
		return nil, err
	}
	root, err := unix.Open("/proc/"+strconv.Itoa(alive.pid)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.ESRCH {
		return nil, changed() // it is ending, and has none any more
	}
	if err != nil {
		return nil, fmt.Errorf("open the instance's root: %w", err)
	}
	defer unix.Close(root)
	if !alive.alive() {
		return nil, driver.ErrNotRunning // and the number may be another's by now
	}
	owner := files.Owner{UID: first + agentID, GID: first + agentID, Set: first >= 0}
	return openFiles(root, path, owner)
}

// restingFiles opens what a stopped instance left. The overlay is not mounted then, so the layer may be
// changed.
func (d *Driver) restingFiles(ctx context.Context, p *place, path string) (*files.Dir, error) {
	r, err := p.record()
	if err != nil {
		return nil, err
	}
	owner := files.Owner{UID: agentID, GID: agentID, Set: d.opts.Tier == TierRoot}
	if !r.Limits.DiskHard {
		upper, err := d.openUpper(p)
		if err != nil {
			return nil, err
		}
		defer unix.Close(upper)
		return openFiles(upper, path, owner)
	}
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	defer p.unlock()
	if alive, err := d.live(p); alive != nil || err != nil {
		return nil, errors.Join(err, changed())
	}
	disk, err := mountImage(p)
	if err != nil {
		return nil, err
	}
	defer unix.Close(disk)
	return openFiles(disk, "upper/"+path, owner)
}

// openFiles opens a directory below root. Whoever was root in the instance decides what is there, so that
// no link and no mount is followed.
func openFiles(root int, path string, owner files.Owner) (*files.Dir, error) {
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, fmt.Errorf("open the instance's %s: %w", path, err)
	}
	dir := os.NewFile(uintptr(fd), "/"+path)
	fs, err := files.NewDir(dir, owner)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return fs, nil
}
