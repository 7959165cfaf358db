package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

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
}

// ScanOptions say what to look at.
type ScanOptions struct {
	Ignore     *Ignore
	MaxEntries int // more than this is an error; zero: no bound
}

// Scan lists a tree: folders in parallel, nothing opened but folders. What cannot be saved is skipped and
// named: sockets, pipes, devices, what cannot be read, and what is nested too deep to have a path.
func Scan(ctx context.Context, t Tree, o ScanOptions) (*ScanResult, error) {
	s := &scanner{ctx: ctx, o: o}
	s.more = sync.NewCond(&s.mu)
	s.push("")
	workers := min(max(runtime.GOMAXPROCS(0), 2), 8)
	results := make([]ScanResult, workers)
	var wg sync.WaitGroup
	for i := range workers {
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
	for _, r := range results[1:] {
		all.Entries, all.Skipped = append(all.Entries, r.Entries...), append(all.Skipped, r.Skipped...)
	}
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
	seen int
	err  error
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

// done ends the work on one folder, which had so many entries.
func (s *scanner) done(entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.seen += entries
	if s.o.MaxEntries > 0 && s.seen > s.o.MaxEntries && s.err == nil {
		s.err = tooLarge("the workspace has more than %d files and folders", s.o.MaxEntries)
	}
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	s.more.Broadcast()
}

func (s *scanner) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
	s.more.Broadcast()
}

func (s *scanner) work(root int, out *ScanResult) error {
	buf := make([]byte, 64<<10)
	for {
		dir, ok := s.next()
		if !ok {
			return nil
		}
		before := len(out.Entries)
		err := s.folder(root, dir, buf, out)
		s.done(len(out.Entries) - before)
		if err != nil {
			return err
		}
	}
}

// folder looks at everything in one folder.
func (s *scanner) folder(root int, dir string, buf []byte, out *ScanResult) error {
	fd, err := openAt(root, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		if dir == "" {
			return fmt.Errorf("open workspace: %w", err)
		}
		out.skip(dir, err)
		return nil
	}
	defer unix.Close(fd)
	var folders []string
	names := make([]string, 0, 64)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "list", Path: dir, Err: err}
		}
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if path := s.entry(fd, dir, name, out); path != "" {
				folders = append(folders, path)
			}
		}
	}
	if len(folders) > 0 {
		s.push(folders...)
	}
	return nil
}

// entry looks at one name and returns its path if it is a folder to look into.
func (s *scanner) entry(fd int, dir, name string, out *ScanResult) (folder string) {
	path := name
	if dir != "" {
		path = dir + "/" + name
	}
	if dir == "" && ours(name) || isTemp(name) {
		return ""
	}
	if len(path) > maxPath {
		out.Skipped = append(out.Skipped, Skipped{clip(path), "it is nested too deep"})
		return ""
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if err != unix.ENOENT { // gone meanwhile
			out.skip(path, err)
		}
		return ""
	}
	e := Seen{Path: path, Mode: st.Mode & 0o777, Size: st.Size, ModTime: st.Mtim.Nano(), Stamp: Stamp{st.Ctim.Nano(), st.Ino}}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Kind = File
	case unix.S_IFDIR:
		e.Kind, e.Size = Folder, 0
	case unix.S_IFLNK:
		e.Kind, e.Size = Link, 0
	default:
		out.Skipped = append(out.Skipped, Skipped{path, special(st.Mode)})
		return ""
	}
	if s.o.Ignore.Match(path, e.Kind == Folder) {
		return ""
	}
	if e.Kind == Link {
		var ok bool
		if e.Target, ok = readLink(fd, name); !ok {
			return ""
		}
	}
	out.Entries = append(out.Entries, e)
	if e.Kind == Folder {
		return path
	}
	return ""
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

func readLink(dir int, name string) (string, bool) {
	buf := make([]byte, maxTarget+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil || n == 0 || n > maxTarget {
		return "", false
	}
	return string(buf[:n]), true
}
