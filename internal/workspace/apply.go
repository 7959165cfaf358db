package workspace

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// apply executes the plan. It clears blocked paths, creates folders, writes files, removes entries (children before
// parents), sets the permissions and times of folders, and syncs to disk. Each part may be repeated after a
// failure. It returns a stamp for each entry of the version.
func (p *pull) apply(ctx context.Context) ([]Stamp, error) {
	w := newWriter(p)
	dirs := p.findReadOnlyDirs()
	err := p.parts(ctx, w, dirs)
	if failed := p.tree.Run(func(root int) error { return dirs.restore(root, err == nil) }); err == nil {
		err = failed
	}
	if err == nil {
		err = p.tree.Run(p.syncToDisk)
	}
	if err != nil {
		return nil, p.stopped(err)
	}
	for i := range p.steps {
		// A file that changed at about the time of the scan may have changed again with the same timestamp. It gets
		// no stamp.
		if s := &p.steps[i]; s.Act == Keep && s.Here.Kind == File && p.scan.Entries[s.here].Stamp.ChangeTime < p.scanned-clockGrain {
			w.stamps[s.there] = p.scan.Entries[s.here].Stamp
		}
	}
	return w.stamps, nil
}

func (p *pull) parts(ctx context.Context, w *writer, dirs *readOnlyDirs) error {
	for _, part := range []func(root int) error{p.removeTempFiles, dirs.open, p.makeRoom, p.makeFolders} {
		if err := p.tree.Run(part); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if err := w.writeAll(ctx); err != nil {
		return err
	}
	for _, part := range []func(root int) error{p.removeEntries, p.finishFolders} {
		if err := p.tree.Run(part); err != nil {
			return err
		}
	}
	return nil
}

// syncToDisk waits until all written data is on disk, because the caller then records that the tree equals the
// version. One sync of the whole file system is much faster than one sync per file.
func (p *pull) syncToDisk(root int) error {
	if !slices.ContainsFunc(p.steps, func(s Step) bool { return s.Act == Down || s.Act == DownGone || s.Act == Both }) {
		return nil
	}
	if err := unix.Syncfs(root); err != nil {
		return fmt.Errorf("sync what was written to disk: %w", err)
	}
	return nil
}

// removeTempFiles removes the temporary files of an interrupted restore.
func (p *pull) removeTempFiles(root int) error {
	for _, path := range p.scan.strays {
		p.at("sweep")
		if err := remove(root, path, File); err != nil {
			return fmt.Errorf("remove the unfinished %s: %w", path, err)
		}
	}
	return nil
}

// makeRoom removes an entry whose path needs another kind: a folder where the version has a file, or a file where
// the version has a folder. An entry that was changed in the tree is renamed instead.
func (p *pull) makeRoom(root int) error {
	for i := range p.steps {
		s := &p.steps[i]
		if s.Here == nil || s.There == nil || s.Act != Down && s.Act != Both {
			continue
		}
		switch here, there := s.Here.Kind == Folder, s.There.Kind == Folder; {
		case here && !there && s.Act == Down:
			if err := p.emptyFolder(root, s.Path); err != nil {
				return err
			}
		case there && !here:
			p.at("clear")
			if err := p.removeOrMoveAside(root, s); err != nil {
				return fmt.Errorf("make room for the folder %s: %w", s.Path, err)
			}
			s.Act, s.Here = Down, nil
		}
	}
	return nil
}

// emptyFolder applies the planned removals below a folder, and removes the folder if it is then empty.
func (p *pull) emptyFolder(root int, path string) error {
	prefix := path + "/"
	from := sort.Search(len(p.steps), func(i int) bool { return p.steps[i].Path >= prefix })
	to := from
	for to < len(p.steps) && strings.HasPrefix(p.steps[to].Path, prefix) {
		to++
	}
	for i := range slices.Backward(p.steps[from:to]) {
		if err := p.drop(root, &p.steps[from+i]); err != nil {
			return err
		}
	}
	return remove(root, path, Folder)
}

// removeOrMoveAside removes the file of a step, or renames it if it was changed in the tree.
func (p *pull) removeOrMoveAside(root int, s *Step) error {
	dir, name, err := parentFD(root, s.Path)
	if err != nil {
		return ignoreMissing(err)
	}
	defer unix.Close(dir)
	if s.Act == Down && p.unchangedSince(dir, name, s) {
		return ignoreMissing(unix.Unlinkat(dir, name, 0))
	}
	return p.moveAside(dir, s.Path)
}

// moveAside renames the entry at a path to a free conflict name in the same folder.
func (p *pull) moveAside(dir int, path string) error {
	for n := range conflictTries {
		aside := conflictName(path, "here-"+p.version.ID, n)
		err := renameNew(dir, nameOf(path), nameOf(aside))
		switch err {
		case nil:
			p.conflict(path, aside)
			return nil
		case unix.ENOENT:
			return nil
		case unix.EEXIST:
			continue
		}
		return err
	}
	return unix.EEXIST
}

// unchangedSince reports whether the entry at a name is still the entry that the scan found. With Discard it always
// returns true. The change time is ignored, because it also changes when another hard link of the file is removed.
func (p *pull) unchangedSince(dir int, name string, s *Step) bool {
	if p.o.Discard {
		return true
	}
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	seen := &p.scan.Entries[s.here]
	return st.Ino == seen.Stamp.Inode && st.Mtim.Nano() == seen.ModTime && (seen.Kind != File || st.Size == seen.Size)
}

// makeFolders creates the folders of the version.
func (p *pull) makeFolders(root int) error {
	at := newParents(root)
	defer at.close()
	for i := range p.steps {
		s := &p.steps[i]
		if s.Act != Down || s.There.Kind != Folder || s.Here != nil {
			continue
		}
		dir, err := at.folder(parentOf(s.Path))
		if err == nil {
			err = p.makeFolder(dir, s.Path)
		}
		if err != nil {
			return fmt.Errorf("make the folder %s: %w", s.Path, err)
		}
		p.at("folder made")
	}
	return nil
}

// makeFolder creates a folder. A file that appeared at its path since the scan is renamed.
func (p *pull) makeFolder(dir int, path string) error {
	name := nameOf(path)
	err := unix.Mkdirat(dir, name, unfinishedFolder)
	if err != unix.EEXIST {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if err := p.moveAside(dir, path); err != nil {
		return err
	}
	return unix.Mkdirat(dir, name, unfinishedFolder)
}

// removeEntries removes the entries that the version does not have, children before parents. It leaves a folder with new
// entries in place.
func (p *pull) removeEntries(root int) error {
	for i := range slices.Backward(p.steps) {
		if err := p.drop(root, &p.steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// drop removes the entry of a step unless it was changed since the scan.
func (p *pull) drop(root int, s *Step) error {
	if s.Act != DownGone || s.Here == nil {
		return nil
	}
	p.at("drop")
	if s.Here.Kind == Folder {
		return remove(root, s.Path, Folder)
	}
	dir, name, err := parentFD(root, s.Path)
	if err != nil {
		return ignoreMissing(err)
	}
	defer unix.Close(dir)
	if !p.unchangedSince(dir, name, s) {
		return nil
	}
	switch err := unix.Unlinkat(dir, name, 0); {
	case err == nil:
		p.stats.FilesDeleted++
		return nil
	case ignoreMissing(err) != nil:
		return fmt.Errorf("delete %s: %w", s.Path, err)
	}
	return nil
}

// finishFolders sets the permissions and times of folders that were created or whose contents changed.
func (p *pull) finishFolders(root int) error {
	touched := map[string]bool{}
	for i := range p.steps {
		if s := &p.steps[i]; s.Act == Down || s.Act == DownGone || s.Act == Both {
			touched[parentOf(s.Path)] = true
		}
	}
	for i := range slices.Backward(p.steps) {
		s := &p.steps[i]
		if s.There == nil || s.There.Kind != Folder {
			continue
		}
		if s.Act == Down || s.Act == Keep && (touched[s.Path] || p.o.Discard && s.Here.ModTime != s.There.ModTime) {
			p.at("finish folder")
			if err := ignoreMissing(setFolder(root, s.Path, s.There.Mode, s.There.ModTime)); err != nil {
				return err
			}
		}
	}
	return nil
}
