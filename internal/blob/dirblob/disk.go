package dirblob

import (
	"errors"
	"io"
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// folder is an open directory with the operations that the store needs. Tests replace it by an implementation that
// loses unsynced changes or fails.
type folder interface {
	// sub opens a directory below. It refuses a path through a symbolic link.
	sub(path string) (folder, error)
	mkdir(name string) error
	rmdir(name string) error

	// create creates a new file for writing. open opens a regular file for reading.
	create(name string) (output, error)
	open(path string) (*os.File, *unix.Stat_t, error)
	stat(path string) (*unix.Stat_t, error)

	link(name string, to folder, as string) error
	rename(name string, to folder, as string) error
	unlink(name string) error

	// names yields all names in the directory, in batches and in no order.
	names() iter.Seq2[[]string, error]

	// sync writes the names in the directory to stable storage.
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

// disk is a folder on a disk of this machine.
type disk struct {
	fd   int
	path string // for error messages
}

// openDisk opens the directory at the configured path, which may contain symbolic links.
func openDisk(path string) (folder, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return &disk{fd, path}, nil
}

// beneath makes the kernel refuse symbolic links, and paths that leave the directory.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

func (d *disk) openat(path string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: beneath}
	return retry(func() (int, error) { return unix.Openat2(d.fd, path, &how) })
}

// retry repeats a call that was interrupted by a signal or a concurrent rename.
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
	// Without O_NONBLOCK, opening a pipe for reading would block until a writer opens it.
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

// diskFile is a file on a disk of this machine.
type diskFile struct{ *os.File }

func (f diskFile) stamp(at time.Time) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(at.UnixNano())}
	// With AT_EMPTY_PATH, an empty path means the file of the descriptor.
	return unix.UtimesNanoAt(int(f.Fd()), "", times, unix.AT_EMPTY_PATH)
}

func (f diskFile) stat() (*unix.Stat_t, error) {
	st := new(unix.Stat_t)
	return st, unix.Fstat(int(f.Fd()), st)
}

func (f diskFile) sync() error { return f.File.Sync() }
