package workspace

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// conflictTries is how many names are tried for the other copy of a file.
const conflictTries = 1000

// direct reports whether a step's file may be written under its name at once: nothing is there, and
// nobody works in a tree of which nothing is known yet.
func (w *writer) direct(s *Step) bool { return s.Act == Down && s.Here == nil && w.base == nil }

// file writes one file of the version. It shows what it is only once fill has written all its bytes.
func (w *writer) file(at *parents, s *Step, fill func(fd int) error) error {
	dir, err := at.folder(parentOf(s.Path))
	if err != nil {
		return &os.PathError{Op: "write", Path: s.Path, Err: err}
	}
	name, direct := nameOf(s.Path), w.direct(s)
	if !direct {
		name = tempName()
	}
	fd, err := create(dir, name)
	if err == unix.EEXIST && direct { // it came into being meanwhile
		direct, name = false, tempName()
		fd, err = create(dir, name)
	}
	if err != nil {
		return &os.PathError{Op: "create", Path: s.Path, Err: err}
	}
	defer unix.Close(fd)
	w.at("created")
	if err = fill(fd); err == nil {
		w.at("filled")
		err = complete(fd, s.There)
	}
	if err == nil && !direct {
		w.at("completed")
		err = w.land(dir, name, s)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, name, 0)
		return fmt.Errorf("write %s: %w", s.Path, err)
	}
	if s.Act == Down {
		w.stamps[s.there], err = stampOf(fd)
	}
	w.files.Add(1)
	return err
}

func create(dir int, name string) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, unfinishedFile)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// complete gives a file that is written its time and then its permissions, by which it is finished.
func complete(fd int, e *Entry) error {
	if err := setTimes(fd, "", e.ModTime); err != nil {
		return err
	}
	return unix.Fchmod(fd, e.Mode&0o777)
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return err
		}
		data = data[max(n, 0):]
	}
	return nil
}

// link makes one symbolic link of the version.
func (w *writer) link(at *parents, s *Step) error {
	dir, err := at.folder(parentOf(s.Path))
	if err != nil {
		return &os.PathError{Op: "link", Path: s.Path, Err: err}
	}
	name, direct := nameOf(s.Path), w.direct(s)
	if !direct {
		name = tempName()
	}
	err = unix.Symlinkat(s.There.Target, dir, name)
	if err == unix.EEXIST && direct {
		direct, name = false, tempName()
		err = unix.Symlinkat(s.There.Target, dir, name)
	}
	if err != nil {
		return &os.PathError{Op: "link", Path: s.Path, Err: err}
	}
	w.at("linked")
	if err = setTimes(dir, name, s.There.ModTime); err == nil && !direct {
		err = w.land(dir, name, s)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, name, 0)
		return fmt.Errorf("link %s: %w", s.Path, err)
	}
	w.files.Add(1)
	return nil
}

// land gives a file or link that is complete its name. Where something is that was changed here, also
// since the trees were compared, it gets one beside it.
func (w *writer) land(dir int, temp string, s *Step) error {
	if s.Act == Down {
		taken, err := w.take(dir, temp, s)
		if err != nil || !taken {
			return err
		}
		s.Act = Both
	}
	for n := range conflictTries {
		beside := conflictName(s.Path, w.version.ID, n)
		err := renameNew(dir, temp, nameOf(beside))
		if err == unix.EEXIST && !has(dir, nameOf(beside), s.There) {
			continue
		}
		if err == unix.EEXIST { // an earlier try came as far as this
			err = unix.Unlinkat(dir, temp, 0)
		}
		w.conflict(s.Path, beside)
		return err
	}
	return unix.EEXIST
}

// take moves a complete file to its name, unless that is taken.
func (w *writer) take(dir int, temp string, s *Step) (taken bool, err error) {
	name := nameOf(s.Path)
	if w.o.Discard || s.Here != nil && s.Here.Kind != Folder && w.untouched(dir, name, s) {
		err = unix.Renameat(dir, temp, dir, name)
	} else {
		err = renameNew(dir, temp, name)
		if err == unix.EEXIST && has(dir, name, s.There) {
			err = unix.Renameat(dir, temp, dir, name)
		}
	}
	if is(err, unix.EISDIR, unix.EEXIST, unix.ENOTEMPTY) {
		if unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) != nil { // no folder, or something is in it
			return true, nil
		}
		err = renameNew(dir, temp, name)
	}
	if err == unix.EEXIST {
		return true, nil
	}
	return false, err
}

// renameNew renames within a folder unless the new name is taken, which is EEXIST.
func renameNew(dir int, from, to string) error {
	err := unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	var st unix.Stat_t // the file system cannot promise it
	if unix.Fstatat(dir, to, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return unix.EEXIST
	}
	return unix.Renameat(dir, from, dir, to)
}

// has reports whether a name already is what an entry says, but for times and permissions.
func has(dir int, name string, e *Entry) bool {
	if e.Kind == Link {
		target, err := readLink(dir, name)
		return err == nil && target == e.Target
	}
	f, st, err := openFile(dir, name)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && st.Size == e.Size && [sha256.Size]byte(sum.Sum(nil)) == e.Sum.SHA256
}

// parents opens the folders that files are written into, and keeps the last one open: the next file is
// most often in the same.
type parents struct {
	root int
	path string
	fd   int
}

func newParents(root int) *parents { return &parents{root: root, fd: -1} }

func (p *parents) folder(path string) (int, error) {
	if p.fd >= 0 && p.path == path {
		return p.fd, nil
	}
	var fd int
	var err error
	if p.fd >= 0 && parentOf(path) == p.path && path != "" {
		fd, err = openStep(p.fd, nameOf(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	} else {
		fd, err = openAt(p.root, path, unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	p.close()
	if err != nil {
		return -1, err
	}
	p.fd, p.path = fd, path
	return fd, nil
}

func (p *parents) close() {
	if p.fd >= 0 {
		_ = unix.Close(p.fd)
		p.fd = -1
	}
}
