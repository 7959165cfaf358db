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

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// Guest connects to the helper of a running instance.
func (d *Driver) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := d.dirs.find(id)
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

// connect connects to the helper of the instance in p. The connection closes p.
func (d *Driver) connect(p *instanceDir) (guest.Conn, error) {
	alive, err := d.processes.live(p)
	if err != nil {
		return nil, err
	}
	if alive == nil || d.runs.frozen(p, alive) {
		return nil, driver.ErrNotRunning
	}
	first, err := d.firstUID(alive)
	if err != nil {
		return nil, err
	}
	opts := guest.Options{Spools: p.join(spoolDir), Owner: -1, Root: -1, Patience: d.opts.ReaderPatience}
	switch {
	case d.opts.Tier == TierMapped:
		opts.Root = mappedRoot
	case first >= 0:
		opts.Owner, opts.Root = first+agentID, first
	}
	return guest.Open(p.dir, opts), nil
}

// firstUID returns the first uid of a running instance on this machine, or -1 if the instance has no uids of its own.
func (d *Driver) firstUID(alive *running) (int, error) {
	if d.opts.Tier != TierRoot {
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

// Output reads the spool of a process from the disk.
func (d *Driver) Output(ctx context.Context, id driver.ID, process string, after int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) {
		p, err := d.dirs.find(id)
		if err != nil {
			yield(guest.Chunk{}, err)
			return
		}
		defer p.Close()
		guest.Output(ctx, p.join(spoolDir), process, after, d.opts.ReaderPatience)(yield)
	}
}

// roots are the paths of files.WorkingDir and files.HomeDir in an instance.
var roots = map[string]string{files.WorkingDir: "workspace", files.HomeDir: "home/agent"}

// Files opens files.WorkingDir or files.HomeDir of an instance. If the instance runs, it opens the directory in the root
// of its first process, else in its upper layer. After a start or stop of the instance, changes through the opened
// files fail.
func (d *Driver) Files(ctx context.Context, id driver.ID, root string) (files.FS, error) {
	path, ok := roots[root]
	if !ok {
		return nil, fmt.Errorf("%w: no root %q", driver.ErrInvalid, root)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := d.dirs.find(id)
	if err != nil {
		return nil, err
	}
	alive, err := d.processes.live(p)
	var dir *files.Dir
	switch {
	case err != nil:
	case alive != nil:
		dir, err = d.access.runningFiles(alive, path)
	default:
		dir, err = d.access.stoppedFiles(ctx, p, path)
	}
	if err != nil {
		defer p.Close()
		return nil, d.access.openError(p, alive, err)
	}
	return d.access.guarded(dir, p, alive), nil
}

// runningFiles opens a directory in the root of a running instance's first process. It does not need the helper, so it also
// works while the instance is frozen.
func (fa fileAccess) runningFiles(alive *running, path string) (*files.Dir, error) {
	first, err := fa.d.firstUID(alive)
	if err != nil {
		return nil, err
	}
	root, err := unix.Open("/proc/"+strconv.Itoa(alive.pid)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.ESRCH {
		return nil, changedError() // the process is ending and has no root any more
	}
	if err != nil {
		return nil, fmt.Errorf("open the instance's root: %w", err)
	}
	defer unix.Close(root)
	if !alive.alive() {
		return nil, driver.ErrNotRunning // another process may have its pid now
	}
	owner := files.Owner{UID: first + agentID, GID: first + agentID, Set: first >= 0}
	dir, err := openFiles(root, path, owner)
	if errors.Is(err, unix.ENOENT) && alive.alive() {
		return nil, notDirectory(path) // the instance still runs, so the directory was removed inside
	}
	return dir, err
}

// stoppedFiles opens a directory of a stopped instance in its upper layer. The overlay is not mounted, so the layer may
// be changed.
func (fa fileAccess) stoppedFiles(ctx context.Context, p *instanceDir, path string) (*files.Dir, error) {
	r, err := p.record()
	if err != nil {
		return nil, err
	}
	owner := files.Owner{UID: agentID, GID: agentID, Set: fa.d.opts.Tier == TierRoot}
	if !r.Limits.DiskHard {
		upper, err := fa.d.disks.openUpper(p)
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
	if alive, err := fa.d.processes.live(p); alive != nil || err != nil {
		return nil, errors.Join(err, changedError())
	}
	disk, err := mountImage(p.join(imageName))
	if err != nil {
		return nil, err
	}
	defer unix.Close(disk.mount)
	return openFiles(disk.mount, "upper/"+path, owner)
}

// notDirectory returns the error for a directory that the user root of the instance has removed or replaced.
func notDirectory(path string) error {
	return &fault.Error{
		Op: "open files", Code: api.CodeNotADirectory, Err: fmt.Errorf("/%s: %w", strings.TrimPrefix(path, "upper/"), driver.ErrNoDirectory),
		Hint: "Stop and start the sandbox: what is there is then moved aside, and the directory is made again.",
	}
}

// openFiles opens a directory below root. It follows no link and no mount, because the instance controls the content.
func openFiles(root int, path string, owner files.Owner) (*files.Dir, error) {
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err == unix.ELOOP || err == unix.ENOTDIR {
		return nil, notDirectory(path)
	}
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
