package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// Names below the driver's directory.
const (
	newDir   = ".new"
	trashDir = ".trash"
	baseDir  = "base"
)

// Names in an instance's directory.
const (
	fsDir    = "fs"
	spoolDir = "spool"
	sockName = "sock"
	madeName = "made"
)

// idForm matches valid IDs. Only these are looked up on the disk.
var idForm = regexp.MustCompile(`^[a-z0-9-]{1,63}-[1-9][0-9]{0,18}$`)

func idOf(k driver.Key) driver.ID {
	return driver.ID(k.Sandbox + "-" + strconv.FormatInt(k.Incarnation, 10))
}

// keyOf returns the Key from which an ID was made. The ID must match idForm.
func keyOf(id driver.ID) driver.Key {
	sandbox, number, _ := cutLast(string(id), "-")
	incarnation, _ := strconv.ParseInt(number, 10, 64)
	return driver.Key{Sandbox: sandbox, Incarnation: incarnation}
}

// instanceDir is the open directory of an instance.
type instanceDir struct {
	id   driver.ID
	path string
	dir  *os.File
	held bool // this value has the exclusive lock
	disk disk
}

func (p *instanceDir) Close() error { return p.dir.Close() }

func (p *instanceDir) join(name ...string) string {
	return filepath.Join(append([]string{p.path}, name...)...)
}

// self returns the path of a file in the directory by its descriptor. The path is short enough for a socket and stays
// valid after a rename of the directory.
func (p *instanceDir) self(name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(p.dir.Fd())) + "/" + name
}

// instanceDirs finds, locks and makes the directories of instances.
type instanceDirs struct{ d *Driver }

func (dirs instanceDirs) path(id driver.ID) string { return filepath.Join(dirs.d.dir, string(id)) }

// find opens an instance's directory. If the directory was removed by hand, find ends what still runs of the instance
// before it returns driver.ErrNotFound.
func (dirs instanceDirs) find(id driver.ID) (*instanceDir, error) {
	if !idForm.MatchString(string(id)) {
		return nil, driver.ErrNotFound
	}
	p, err := openInstanceDir(id, dirs.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		dirs.d.sweeper.endRemoved(id)
		return nil, driver.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	p.disk = dirs.d.disk
	return p, nil
}

func openInstanceDir(id driver.ID, path string) (*instanceDir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &instanceDir{id: id, path: path, dir: os.NewFile(uintptr(fd), path), disk: machine{}}, nil
}

// lock opens an instance's directory and waits for its exclusive lock. The lock ends with Close, or with this process.
func (dirs instanceDirs) lock(ctx context.Context, id driver.ID) (*instanceDir, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := dirs.find(id)
	if err != nil {
		return nil, err
	}
	defer dirs.d.access.announce(id)()
	return p.locked(p.lock(ctx))
}

// locked returns the directory after a wait for the lock that ended with err. It returns driver.ErrNotFound if the
// directory lost its name during the wait. After an error the directory is closed.
func (p *instanceDir) locked(err error) (*instanceDir, error) {
	if err == nil && !p.current() {
		err = driver.ErrNotFound
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *instanceDir) lock(ctx context.Context) error {
	err := p.poll(ctx, func() error { return p.tryLock(unix.LOCK_EX) })
	p.held = err == nil
	return err
}

func (p *instanceDir) unlock() error {
	p.held = false
	return os.NewSyscallError("flock", unix.Flock(int(p.dir.Fd()), unix.LOCK_UN))
}

// poll repeats try until it gets the lock or ctx ends. A blocking flock could not be cancelled.
func (p *instanceDir) poll(ctx context.Context, try func() error) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 16*time.Millisecond) {
		err := try()
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("wait for another change of instance %s: %w", p.id, ctx.Err())
		}
	}
}

func (p *instanceDir) tryLock(how int) error {
	for {
		err := unix.Flock(int(p.dir.Fd()), how|unix.LOCK_NB)
		if err != unix.EINTR {
			return os.NewSyscallError("flock", err)
		}
	}
}

// busy reports whether the exclusive lock is held through another descriptor, because the instance is being changed.
func (p *instanceDir) busy() bool {
	if p.held {
		return false
	}
	err := p.tryLock(unix.LOCK_SH)
	if err == nil {
		_ = unix.Flock(int(p.dir.Fd()), unix.LOCK_UN)
	}
	return errors.Is(err, unix.EWOULDBLOCK)
}

// current reports whether the directory still has its name.
func (p *instanceDir) current() bool {
	held, err := p.dir.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(p.path)
	return err == nil && os.SameFile(held, named)
}

// stage makes the directory of a new instance, with its record, under a temporary name. The directory is locked.
func (dirs instanceDirs) stage(id driver.ID, r record) (*instanceDir, error) {
	path := filepath.Join(dirs.d.dir, newDir, string(id)+"."+strings.ToLower(rand.Text()[:8]))
	if err := dirs.d.disk.mkdir(path, 0o700); err != nil {
		return nil, fmt.Errorf("make instance directory: %w", err)
	}
	p, err := openInstanceDir(id, path)
	if err != nil {
		return nil, err
	}
	p.disk = dirs.d.disk
	err = p.tryLock(unix.LOCK_EX)
	p.held = err == nil
	if err == nil {
		err = dirs.populate(p, r)
	}
	if err != nil {
		p.Close()
		dirs.d.trash.discard(path)
		return nil, err
	}
	return p, nil
}

func (dirs instanceDirs) populate(p *instanceDir, r record) error {
	if err := writeJSON(p, recordName, r); err != nil {
		return err
	}
	names := []string{spoolDir, fsDir, filepath.Join(fsDir, "upper"), filepath.Join(fsDir, "work")}
	if r.Limits.DiskHard {
		names = names[:1]
	}
	for _, sub := range names {
		if err := p.disk.mkdir(p.join(sub), 0o755); err != nil {
			return fmt.Errorf("make instance directory: %w", err)
		}
	}
	return nil
}

// claim renames a staged directory to its ID. It returns fs.ErrExist if the ID is taken.
func (dirs instanceDirs) claim(p *instanceDir) error {
	to := dirs.path(p.id)
	if err := dirs.d.disk.rename(p.path, to, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	p.path = to
	return nil
}

// discard moves a directory to the trash, which is emptied in the background.
func (tr trash) discard(path string) error {
	if err := tr.put(path); err != nil {
		return err
	}
	tr.d.background(tr.empty)
	return nil
}

func (tr trash) put(path string) error {
	to := filepath.Join(tr.d.dir, trashDir, filepath.Base(path)+"."+strings.ToLower(rand.Text()[:8]))
	if err := tr.d.disk.rename(path, to, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("discard instance directory: %w", err)
	}
	return nil
}
