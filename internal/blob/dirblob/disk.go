package dirblob

import (
	"errors"
	"io"
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// folder is an open directory and what the store does in one. Tests put another one in between, which
// forgets what was not synced or fails.
type folder interface {
	// sub opens a directory below; a path through a link is refused.
	sub(path string) (folder, error)
	mkdir(name string) error
	rmdir(name string) error

	// create makes a new file. open opens one for reading that is a plain file.
	create(name string) (output, error)
	open(path string) (*os.File, *unix.Stat_t, error)
	stat(path string) (*unix.Stat_t, error)

	link(name string, to folder, as string) error
	rename(name string, to folder, as string) error
	unlink(name string) error

	// names yields the names in the directory in no order, some at a time.
	names() iter.Seq2[[]string, error]

	// sync makes the names in the directory outlive a power loss.
	sync() error
	close() error
	descriptor() int
}

// output is a file that is being written.
type output interface {
	io.Writer
	stamp(at time.Time) error
	stat() (*unix.Stat_t, error)
	sync() error
	Close() error
}

// disk is a directory of the machine.
type disk struct {
	fd   int
	path string // for messages
}

// openDisk opens a directory by a path that may have links in it: it is the administrator's.
func openDisk(path string) (folder, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return &disk{fd, path}, nil
}

// beneath makes the kernel refuse every link on the way.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

func (d *disk) openat(path string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: beneath}
	return retry(func() (int, error) { return unix.Openat2(d.fd, path, &how) })
}

// retry goes on when a signal, or a rename beside it, interrupted a call.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR && err != unix.EAGAIN {
			return n, err
		}
	}
}

func (d *disk) sub(path string) (folder, error) {
	fd, err := d.openat(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return &disk{fd, d.path + "/" + path}, nil
}

func (d *disk) mkdir(name string) error { return unix.Mkdirat(d.fd, name, 0o700) }
func (d *disk) rmdir(name string) error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }

func (d *disk) create(name string) (output, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return nil, err
	}
	return diskFile{os.NewFile(uintptr(fd), d.path+"/"+name)}, nil
}

func (d *disk) open(path string) (*os.File, *unix.Stat_t, error) {
	// Opening a pipe for reading would wait for a writer.
	fd, err := d.openat(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, nil, err
	}
	st := new(unix.Stat_t)
	err = unix.Fstat(fd, st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errNotPlain
	}
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), d.path+"/"+path), st, nil
}

var errNotPlain = errors.New("it is not a plain file")

func (d *disk) stat(path string) (*unix.Stat_t, error) {
	fd, err := d.openat(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	st := new(unix.Stat_t)
	if err := unix.Fstat(fd, st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errNotPlain
	}
	return st, nil
}

func (d *disk) link(name string, to folder, as string) error {
	return unix.Linkat(d.fd, name, to.descriptor(), as, 0)
}

func (d *disk) rename(name string, to folder, as string) error {
	return unix.Renameat(d.fd, name, to.descriptor(), as)
}

func (d *disk) unlink(name string) error { return unix.Unlinkat(d.fd, name, 0) }

func (d *disk) names() iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		fd, err := d.openat(".", unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			yield(nil, err)
			return
		}
		f := os.NewFile(uintptr(fd), d.path)
		defer f.Close()
		for {
			names, err := f.Readdirnames(1024)
			if err == io.EOF {
				return
			}
			if !yield(names, err) || err != nil {
				return
			}
		}
	}
}

func (d *disk) sync() error {
	_, err := retry(func() (int, error) { return 0, unix.Fsync(d.fd) })
	return err
}

func (d *disk) close() error    { return unix.Close(d.fd) }
func (d *disk) descriptor() int { return d.fd }

// diskFile is a file of the machine.
type diskFile struct{ *os.File }

func (f diskFile) stamp(at time.Time) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(at.UnixNano())}
	// The path is empty and the flag says so: the descriptor's own file.
	return unix.UtimesNanoAt(int(f.Fd()), "", times, unix.AT_EMPTY_PATH)
}

func (f diskFile) stat() (*unix.Stat_t, error) {
	st := new(unix.Stat_t)
	return st, unix.Fstat(int(f.Fd()), st)
}

func (f diskFile) sync() error { return f.File.Sync() }
