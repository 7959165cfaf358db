package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Seen is an entry of a tree as it is, and what tells whether it has changed since.
type Seen struct {
	Path    string
	Kind    Kind
	Mode    uint32
	Size    int64
	ModTime int64
	Stamp   Stamp
	Target  string

	unfinished bool // a folder that a restore made and did not come to finish
}

// Stamp changes whenever a file may have changed.
type Stamp struct {
	ChangeTime int64
	Inode      uint64
}

// Skipped is something that cannot be saved, and why.
type Skipped struct {
	Path string
	Why  string
}

// ScanResult is everything in a tree.
type ScanResult struct {
	Entries []Seen // sorted by path
	Skipped []Skipped

	unread  []string // could not be looked at: what is there, or below, is not known
	strays  []string // what a restore was writing when it was stopped
	foreign []foreign
}

// ScanOptions say what to look at.
type ScanOptions struct {
	Ignore     *Ignore
	MaxEntries int   // more than this is an error; zero: no bound
	MaxBytes   int64 // in all files; more is an error; zero: no bound
	Expect     int   // about how many entries there will be
	Progress   *Progress
}

// mostExpected bounds what is made room for: who says what to expect may be wrong.
const mostExpected = 1 << 18

// Scan lists a tree: folders in parallel, nothing opened but folders. What cannot be saved is skipped and
// named: sockets, pipes, devices, what cannot be read, what is on another file system, hard links to
// somebody else's files, and what is nested too deep. Whatever else goes wrong is an error: a tree that
// was not seen whole must not be taken for one that is smaller.
func Scan(ctx context.Context, t Tree, o ScanOptions) (*ScanResult, error) {
	s := &scanner{ctx: ctx, o: o}
	s.more = sync.NewCond(&s.mu)
	s.push("")
	workers := min(max(runtime.GOMAXPROCS(0), 2), 8)
	results := make([]ScanResult, workers)
	var wg sync.WaitGroup
	for i := range workers {
		results[i].Entries = make([]Seen, 0, min(o.Expect, mostExpected)/workers*5/4)
		wg.Go(func() {
			if err := t.Run(func(root int) error { return s.work(root, &results[i]) }); err != nil {
				s.fail(err)
			}
		})
	}
	wg.Wait()
	if s.err != nil {
		return nil, s.err
	}
	all := &results[0]
	all.Entries = slices.Grow(all.Entries, int(s.seen.Load())-len(all.Entries))
	for _, r := range results[1:] {
		all.Entries, all.Skipped = append(all.Entries, r.Entries...), append(all.Skipped, r.Skipped...)
		all.unread, all.strays = append(all.unread, r.unread...), append(all.strays, r.strays...)
		all.foreign = append(all.foreign, r.foreign...)
	}
	all.dropForeign()
	slices.SortFunc(all.Entries, func(a, b Seen) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(all.Skipped, func(a, b Skipped) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// scanner hands folders to workers until none is left.
type scanner struct {
	ctx  context.Context
	o    ScanOptions
	mu   sync.Mutex
	more *sync.Cond
	todo []string
	busy int
	err  error

	seen, bytes atomic.Int64
}

func (s *scanner) push(dirs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.todo = append(s.todo, dirs...)
	s.more.Broadcast()
}

// next is a folder to look into; ok is false when there is none and will be none.
func (s *scanner) next() (dir string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.todo) == 0 && s.busy > 0 && s.err == nil {
		s.more.Wait()
	}
	if len(s.todo) == 0 || s.err != nil {
		s.more.Broadcast()
		return "", false
	}
	dir = s.todo[len(s.todo)-1]
	s.todo = s.todo[:len(s.todo)-1]
	s.busy++
	return dir, true
}

// done ends the work on one folder.
func (s *scanner) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.more.Broadcast()
}

// count counts what was seen, and says when it is too much or nobody waits for it any more.
func (s *scanner) count(seen []Seen) error {
	var bytes int64
	for i := range seen {
		if bytes += seen[i].Size; bytes < 0 || seen[i].Size > maxSize {
			return tooLarge("%s has %d bytes", clip(seen[i].Path), seen[i].Size)
		}
	}
	entries, bytes := s.seen.Add(int64(len(seen))), s.bytes.Add(bytes)
	s.o.Progress.saw(len(seen))
	switch {
	case s.o.MaxEntries > 0 && entries > int64(s.o.MaxEntries):
		return tooLarge("the workspace has more than %d files and folders", s.o.MaxEntries)
	case s.o.MaxBytes > 0 && bytes > s.o.MaxBytes:
		return tooLarge("the files of the workspace have more than %d bytes", s.o.MaxBytes)
	}
	return s.ctx.Err()
}

func (s *scanner) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.more.Broadcast()
}

func (s *scanner) work(root int, out *ScanResult) error {
	w := &walker{scanner: s, root: root, out: out, buf: make([]byte, 64<<10)}
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		return fmt.Errorf("look at the workspace: %w", err)
	}
	w.owner = st.Uid
	for {
		dir, ok := s.next()
		if !ok {
			return nil
		}
		err := w.down(dir)
		if err != nil {
			s.fail(err) // before done, or another worker would take this for the end
		}
		s.done()
		if err != nil {
			return err
		}
	}
}

// down looks at a folder, then at one in it, and so on; the others are for whoever is free. What is in a
// folder is opened from there: a path of thousands of folders is not walked for each of them.
func (w *walker) down(dir string) error {
	fd, err := openAt(w.root, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	for err == nil {
		var folders []string
		folders, err = w.folder(fd, dir)
		if err != nil || len(folders) == 0 {
			_ = unix.Close(fd)
			return err
		}
		last := len(folders) - 1
		if last > 0 {
			w.push(folders[:last]...)
		}
		dir = folders[last]
		parent := fd
		fd, err = openStep(parent, nameOf(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		_ = unix.Close(parent)
	}
	return w.failed("open", dir, err)
}

// walker looks at one folder after the other.
type walker struct {
	*scanner
	root  int
	owner uint32 // of the root
	out   *ScanResult
	buf   []byte
}

// folder looks at everything in one folder and returns the folders in it.
func (w *walker) folder(fd int, dir string) (folders []string, err error) {
	names := make([]string, 0, 64)
	for {
		n, err := unix.ReadDirent(fd, w.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return folders, w.failed("list", dir, err)
		}
		if n == 0 {
			return folders, nil
		}
		_, _, names = unix.ParseDirent(w.buf[:n], -1, names[:0])
		before := len(w.out.Entries)
		for _, name := range names {
			path, err := w.entry(fd, dir, name)
			if err != nil {
				return nil, err
			}
			if path != "" {
				folders = append(folders, path)
			}
		}
		if err := w.count(w.out.Entries[before:]); err != nil {
			return nil, err
		}
	}
}

// failed decides about something that could not be looked at: it is gone, it cannot be read by whom the
// tree belongs to, or the scan fails. The root is never gone: a tree without one is not an empty tree.
func (w *walker) failed(op, path string, err error) error {
	switch {
	case path != "" && gone(err):
		return nil
	case path != "" && unreadable(err):
		w.out.skip(path, err)
		w.out.unread = append(w.out.unread, path)
		return nil
	}
	return &os.PathError{Op: op, Path: cmp.Or(path, "the workspace"), Err: err}
}

// entry looks at one name and returns its path if it is a folder to look into.
func (w *walker) entry(fd int, dir, name string) (folder string, err error) {
	path := name
	if dir != "" {
		path = dir + "/" + name
	}
	if dir == "" && ours(name) {
		return "", nil
	}
	if len(path) > maxPath {
		w.out.Skipped = append(w.out.Skipped, Skipped{clip(path), "it is nested too deep"})
		return "", nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", w.failed("look at", path, err)
	}
	e := Seen{Path: path, Mode: st.Mode & 0o777, Size: st.Size, ModTime: st.Mtim.Nano(), Stamp: Stamp{st.Ctim.Nano(), st.Ino}}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Kind = File
	case unix.S_IFDIR:
		e.Kind, e.Size, e.unfinished = Folder, 0, st.Mode&0o7777 == unfinishedFolder
	case unix.S_IFLNK:
		e.Kind, e.Size = Link, 0
	default:
		w.out.Skipped = append(w.out.Skipped, Skipped{path, special(st.Mode)})
		return "", nil
	}
	switch {
	case e.Kind != Folder && isTemp(name), e.Kind == File && st.Mode&0o7777 == unfinishedFile:
		w.out.strays = append(w.out.strays, path)
		return "", nil
	case e.Kind == File && isUpload(name), w.o.Ignore.Match(path, e.Kind == Folder):
		return "", nil
	case e.Kind == Link:
		if e.Target, err = readLink(fd, name); err != nil {
			return "", w.failed("read", path, err)
		}
	case e.Kind == File && st.Nlink > 1 && st.Uid != w.owner:
		w.out.foreign = append(w.out.foreign, foreign{path, st.Ino, uint64(st.Nlink)})
	}
	w.out.Entries = append(w.out.Entries, e)
	if e.Kind == Folder {
		return path, nil
	}
	return "", nil
}

func (r *ScanResult) skip(path string, err error) {
	r.Skipped = append(r.Skipped, Skipped{path, err.Error()})
}

func special(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "it is a pipe"
	case unix.S_IFSOCK:
		return "it is a socket"
	}
	return "it is a device"
}

func readLink(dir int, name string) (string, error) {
	var buf [maxTarget + 1]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	switch {
	case err == unix.EINVAL: // no link any more
		err = unix.ENOENT
	case err == nil && n > maxTarget:
		err = unix.ENAMETOOLONG
	}
	return string(buf[:max(n, 0)]), err
}

// gone are the errors of something that is there no more, or is something else by now.
func gone(err error) bool {
	return is(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP)
}

// unreadable are the errors of something that is there and cannot be read: by its permissions, because
// somebody holds a lease on it, because it is on another file system, or is broken.
func unreadable(err error) bool {
	return is(err, unix.EACCES, unix.EPERM, unix.EAGAIN, unix.EXDEV, unix.EIO, unix.ENXIO, unix.ENAMETOOLONG)
}

func is(err error, any ...unix.Errno) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && slices.Contains(any, errno)
}
