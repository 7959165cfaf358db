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

// Seen is a scanned entry of a tree, with its stamp.
type Seen struct {
	Path    string
	Kind    Kind
	Mode    uint32
	Size    int64
	ModTime int64
	Stamp   Stamp
	Target  string

	unfinished bool // an interrupted restore created the folder
}

// Stamp identifies a state of a file. If the stamp is equal, the file has not changed.
type Stamp struct {
	ChangeTime int64
	Inode      uint64
}

// Skipped is an entry that cannot be saved, with the reason.
type Skipped struct {
	Path string
	Why  string
}

// ScanResult is the result of a scan.
type ScanResult struct {
	Entries []Seen // sorted by path
	Skipped []Skipped

	unread       []string // unreadable paths, whose contents are unknown
	strays       []string // temporary files of an interrupted restore
	outsideLinks []outsideLink
}

// ScanOptions configure a scan.
type ScanOptions struct {
	Ignore     *Ignore
	MaxEntries int   // maximum number of entries; zero means no limit
	MaxBytes   int64 // maximum size of all files together; zero means no limit
	Expect     int   // expected number of entries
	Progress   *Progress
}

// mostExpected limits the preallocation, because Expect may be too high.
const mostExpected = 1 << 18

// Scan lists a tree. It reads folders in parallel and opens no files. Entries that cannot be saved are skipped and
// listed: sockets, pipes, devices, unreadable entries, other file systems, hard links to other users' files, and
// entries nested too deep. Every other failure is an error, because an incomplete scan would look like a smaller
// tree.
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
		all.outsideLinks = append(all.outsideLinks, r.outsideLinks...)
	}
	all.dropOutsideLinks()
	slices.SortFunc(all.Entries, func(a, b Seen) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(all.Skipped, func(a, b Skipped) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// scanner distributes folders to workers until all are scanned.
type scanner struct {
	ctx  context.Context
	o    ScanOptions
	mu   sync.Mutex
	more *sync.Cond
	todo []string
	busy int
	err  error

	seen, bytes atomic.Int64

	topMu sync.Mutex
	top   []Seen // the largest files so far
}

func (s *scanner) push(dirs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.todo = append(s.todo, dirs...)
	s.more.Broadcast()
}

// next returns the next folder to scan. It returns false at the end of the scan.
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

// done marks one folder as scanned.
func (s *scanner) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.more.Broadcast()
}

// count adds entries to the totals. It returns an error if a limit is exceeded or the context ended.
func (s *scanner) count(seen []Seen) error {
	var bytes int64
	for i := range seen {
		if bytes += seen[i].Size; bytes < 0 || seen[i].Size > maxSize {
			return tooLarge("%s has %d bytes", clip(seen[i].Path), seen[i].Size)
		}
	}
	s.remember(seen)
	entries, bytes := s.seen.Add(int64(len(seen))), s.bytes.Add(bytes)
	s.o.Progress.addSeen(len(seen))
	switch {
	case s.o.MaxEntries > 0 && entries > int64(s.o.MaxEntries):
		return tooLarge("the workspace has more than %d files and folders", s.o.MaxEntries)
	case s.o.MaxBytes > 0 && bytes > s.o.MaxBytes:
		return tooLarge("the files of the workspace have more than %d bytes%s", s.o.MaxBytes, s.largest(seen))
	}
	return s.ctx.Err()
}

// topFile is the minimum size of files that remember records.
const topFile = 1 << 20

// remember records the large files among the given entries.
func (s *scanner) remember(seen []Seen) {
	for i := range seen {
		if seen[i].Size < topFile {
			continue
		}
		s.topMu.Lock()
		s.top = append(s.top, seen[i])
		if len(s.top) > 64 {
			slices.SortFunc(s.top, func(a, b Seen) int { return cmp.Compare(b.Size, a.Size) })
			s.top = s.top[:3]
		}
		s.topMu.Unlock()
	}
}

// largest returns a text that names the largest files found so far.
func (s *scanner) largest(seen []Seen) string {
	s.topMu.Lock()
	defer s.topMu.Unlock()
	if len(s.top) == 0 {
		return largest(seen)
	}
	return largest(s.top)
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
			s.fail(err) // before done; otherwise another worker could end the scan without this error
		}
		s.done()
		if err != nil {
			return err
		}
	}
}

// down scans a folder, then one of its subfolders, and so on. It leaves the other subfolders to free workers. It
// opens each folder relative to its parent, so that long paths are not resolved again and again.
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

// walker is the state of one worker of a scan.
type walker struct {
	*scanner
	root  int
	owner uint32 // user id of the root's owner
	out   *ScanResult
	buf   []byte
}

// folder scans one folder and returns the subfolders that must be scanned.
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

// failed classifies an error. It ignores a vanished entry, records an unreadable entry as skipped, and returns
// every other error. It also returns every error of the root, because a missing root is not an empty tree.
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

// entry scans one name. It returns the path if the entry is a folder that must be scanned.
func (w *walker) entry(fd int, dir, name string) (folder string, err error) {
	path := name
	if dir != "" {
		path = dir + "/" + name
	}
	if dir == "" && ours(name) {
		w.reserved(fd, name)
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
		w.out.outsideLinks = append(w.out.outsideLinks, outsideLink{path, st.Ino, uint64(st.Nlink)})
	}
	w.out.Entries = append(w.out.Entries, e)
	if e.Kind == Folder {
		return path, nil
	}
	return "", nil
}

// reserved lists a name that versions never have, unless the entry is a file of Berth.
func (w *walker) reserved(fd int, name string) {
	rest := strings.TrimPrefix(name, StateFile)
	written := rest == "" || slices.ContainsFunc([]string{".tmp", ".lock", ".idx"}, func(s string) bool { return strings.HasPrefix(rest, s) })
	var st unix.Stat_t
	err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && (!written || st.Mode&unix.S_IFMT == unix.S_IFDIR) {
		w.out.Skipped = append(w.out.Skipped, Skipped{name, "names here that begin with " + StateFile + " are kept for Berth's own files"})
	}
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
	case err == unix.EINVAL: // no longer a link
		err = unix.ENOENT
	case err == nil && n > maxTarget:
		err = unix.ENAMETOOLONG
	}
	return string(buf[:max(n, 0)]), err
}

// gone reports whether an error means that the entry vanished or changed its type.
func gone(err error) bool {
	return is(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP)
}

// unreadable reports whether an error means that the entry exists but cannot be read: because of its permissions, a
// lease on it, another file system, or damage.
func unreadable(err error) bool {
	return is(err, unix.EACCES, unix.EPERM, unix.EAGAIN, unix.EXDEV, unix.EIO, unix.ENXIO, unix.ENAMETOOLONG)
}

func is(err error, any ...unix.Errno) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && slices.Contains(any, errno)
}

// outsideLink is a file with several hard links that belongs to another user than the tree's root.
type outsideLink struct {
	path         string
	inode, names uint64
}

// dropOutsideLinks skips files of other users that also have a hard link outside the tree, because a sandbox may
// have linked them into the tree to read them. Files with all their links in the tree are kept.
func (r *ScanResult) dropOutsideLinks() {
	if len(r.outsideLinks) == 0 {
		return
	}
	here := map[uint64]uint64{}
	for _, f := range r.outsideLinks {
		here[f.inode]++
	}
	out := map[string]bool{}
	for _, f := range r.outsideLinks {
		if here[f.inode] < f.names {
			out[f.path] = true
			r.Skipped = append(r.Skipped, Skipped{f.path, "it is a hard link to a file of another user"})
		}
	}
	kept := r.Entries[:0]
	for _, e := range r.Entries {
		if !out[e.Path] {
			kept = append(kept, e)
		}
	}
	r.Entries = kept
}
