package workspace

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// conflictTries is the number of names that are tried for the copy of a conflicting file.
const conflictTries = 1000

// direct reports whether the file of a step may be written directly under its final name: the path is free, and the
// tree has no base, so no sandbox uses it yet.
func (w *writer) direct(s *Step) bool { return s.Act == Down && s.Here == nil && w.base == nil }

// writeFile writes one file of the version. A file that is written directly under its final name has special permissions
// until all its bytes are written. Other files have a temporary name until then.
func (w *writer) writeFile(at *parents, s *Step, fill func(fd int) error) error {
	dir, err := at.folder(parentOf(s.Path))
	if err != nil {
		return &os.PathError{Op: "write", Path: s.Path, Err: err}
	}
	name, direct := nameOf(s.Path), w.direct(s)
	if !direct {
		name = tempName()
	}
	fd, err := create(dir, name)
	if err == unix.EEXIST && direct { // another process created it since the scan
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
		err = w.publish(dir, name, s)
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

// complete sets the time and then the permissions, which mark the file as finished.
func complete(fd int, e *Entry) error {
	if err := setTimes(fd, "", e.ModTime); err != nil {
		return err
	}
	return unix.Fchmod(fd, e.Mode&0o777)
}

func writeFull(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return err
		}
		data = data[max(n, 0):]
	}
	return nil
}

// writeLink creates one symbolic link of the version.
func (w *writer) writeLink(at *parents, s *Step) error {
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
		err = w.publish(dir, name, s)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, name, 0)
		return fmt.Errorf("link %s: %w", s.Path, err)
	}
	w.files.Add(1)
	return nil
}

// publish renames a finished file or link from its temporary name to its final name. If the entry at that name was
// changed in the tree, the file gets a conflict name in the same folder.
func (w *writer) publish(dir int, temp string, s *Step) error {
	if s.Act == Down {
		taken, err := w.moveToName(dir, temp, s)
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
		if err == unix.EEXIST { // an earlier attempt wrote the same copy
			err = unix.Unlinkat(dir, temp, 0)
		}
		w.conflict(s.Path, beside)
		return err
	}
	return unix.EEXIST
}

// moveToName renames a finished file to its final name. It returns taken if a changed entry is there.
func (w *writer) moveToName(dir int, temp string, s *Step) (taken bool, err error) {
	name := nameOf(s.Path)
	if w.o.Discard || s.Here != nil && s.Here.Kind != Folder && w.unchangedSince(dir, name, s) {
		err = unix.Renameat(dir, temp, dir, name)
	} else {
		err = renameNew(dir, temp, name)
		if err == unix.EEXIST && has(dir, name, s.There) {
			err = unix.Renameat(dir, temp, dir, name)
		}
	}
	if is(err, unix.EISDIR, unix.EEXIST, unix.ENOTEMPTY) {
		if unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) != nil { // the name belongs to a file or a non-empty folder
			return true, nil
		}
		err = renameNew(dir, temp, name)
	}
	if err == unix.EEXIST {
		return true, nil
	}
	return false, err
}

// renameNew renames an entry within a folder. It returns EEXIST if the new name exists.
func renameNew(dir int, from, to string) error {
	err := unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	var st unix.Stat_t // the file system does not support RENAME_NOREPLACE
	if unix.Fstatat(dir, to, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return unix.EEXIST
	}
	return unix.Renameat(dir, from, dir, to)
}

// has reports whether the file or link at a name has the same content as an entry. Times and permissions may
// differ.
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

// parents opens the folders of files that are written. It keeps the last folder open, because the next file is
// usually in the same one.
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

// A restore marks unfinished entries. A file that replaces another has a temporary name, and a new file or folder
// has permissions that are not used otherwise. After a crash the next restore removes such files and completes such
// folders. Marked files are never saved.
const (
	tempPrefix       = ".berth-tmp-"
	tempDigits       = 16
	unfinishedFile   = unix.S_ISVTX | 0o200
	unfinishedFolder = unix.S_ISVTX | 0o700
)

func tempName() string {
	var id [tempDigits / 2]byte
	_, _ = rand.Read(id[:])
	return tempPrefix + hex.EncodeToString(id[:])
}

// isUpload reports whether the files API is writing a file of this name: the prefix followed by 26 characters of
// a-z and 2-7, as in files.IsUpload. Files that a crash left behind are neither saved nor restored.
func isUpload(name string) bool {
	id, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(id) == uploadLetters && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

const uploadLetters = 26

// isTemp reports whether a name was made by tempName.
func isTemp(name string) bool {
	digits, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(digits) == tempDigits && strings.Trim(digits, "0123456789abcdef") == ""
}
