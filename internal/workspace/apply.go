package workspace

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// apply does what was planned: room first, then folders, then files, then removals, children before
// parents, then the permissions and times of folders, and then all of it goes to disk. Each part may be
// repeated after a failure. It returns the stamp of every entry of the version that is here as the version
// has it.
func (p *pull) apply(ctx context.Context) ([]Stamp, error) {
	w := newWriter(p)
	doors := p.closedFolders()
	err := p.parts(ctx, w, doors)
	if shut := p.tree.Run(func(root int) error { return doors.shut(root, err == nil) }); err == nil {
		err = shut
	}
	if err == nil {
		err = p.tree.Run(p.settle)
	}
	if err != nil {
		return nil, p.stopped(err)
	}
	for i := range p.steps {
		// What changed at about the time of the scan may have changed again, unseen by any clock.
		if s := &p.steps[i]; s.Act == Keep && s.Here.Kind == File && p.scan.Entries[s.here].Stamp.ChangeTime < p.scanned-clockGrain {
			w.stamps[s.there] = p.scan.Entries[s.here].Stamp
		}
	}
	return w.stamps, nil
}

func (p *pull) parts(ctx context.Context, w *writer, doors *doors) error {
	for _, part := range []func(root int) error{p.sweep, doors.open, p.makeRoom, p.folders} {
		if err := p.tree.Run(part); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if err := w.all(ctx); err != nil {
		return err
	}
	for _, part := range []func(root int) error{p.removals, p.finish} {
		if err := p.tree.Run(part); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until everything that was written here is on disk: whoever is told that the tree is a version
// writes that down. One sync for all of it takes a fraction of one for each file.
func (p *pull) settle(root int) error {
	if !slices.ContainsFunc(p.steps, func(s Step) bool { return s.Act == Down || s.Act == DownGone || s.Act == Both }) {
		return nil
	}
	if err := unix.Syncfs(root); err != nil {
		return fmt.Errorf("sync what was written to disk: %w", err)
	}
	return nil
}

// sweep removes what a restore was writing when it was stopped.
func (p *pull) sweep(root int) error {
	for _, path := range p.scan.strays {
		p.at("sweep")
		if err := remove(root, path, File); err != nil {
			return fmt.Errorf("remove the unfinished %s: %w", path, err)
		}
	}
	return nil
}

// makeRoom removes what is in the way of a file that was a folder, and of a folder that was a file. What
// was changed here gets another name instead.
func (p *pull) makeRoom(root int) error {
	for i := range p.steps {
		s := &p.steps[i]
		if s.Here == nil || s.There == nil || s.Act != Down && s.Act != Both {
			continue
		}
		switch here, there := s.Here.Kind == Folder, s.There.Kind == Folder; {
		case here && !there && s.Act == Down:
			if err := p.empty(root, s.Path); err != nil {
				return err
			}
		case there && !here:
			p.at("clear")
			if err := p.clear(root, s); err != nil {
				return fmt.Errorf("make room for the folder %s: %w", s.Path, err)
			}
			s.Act, s.Here = Down, nil
		}
	}
	return nil
}

// empty removes what goes below a folder, and the folder if nothing is left in it.
func (p *pull) empty(root int, path string) error {
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

// clear takes the file of a step away: one that was changed here is kept under another name.
func (p *pull) clear(root int, s *Step) error {
	dir, name, err := parentFD(root, s.Path)
	if err != nil {
		return passable(err)
	}
	defer unix.Close(dir)
	if s.Act == Down && p.untouched(dir, name, s) {
		return passable(unix.Unlinkat(dir, name, 0))
	}
	return p.moveAside(dir, s.Path)
}

// moveAside gives what is at a path another name in its folder.
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

// untouched reports whether what is at a name is still what was seen there when the trees were compared.
// With Discard it does not matter. A name that another name of the same file was taken from has a new
// change time, so that does not count.
func (p *pull) untouched(dir int, name string, s *Step) bool {
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

// folders makes the folders of the version.
func (p *pull) folders(root int) error {
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

// makeFolder makes a folder. A file that came into being there meanwhile gets another name.
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

// removals removes what the version does not have, children before parents. A folder in which something
// new is stays.
func (p *pull) removals(root int) error {
	for i := range slices.Backward(p.steps) {
		if err := p.drop(root, &p.steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// drop removes what a step says is gone, unless it was changed meanwhile.
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
		return passable(err)
	}
	defer unix.Close(dir)
	if !p.untouched(dir, name, s) {
		return nil
	}
	switch err := unix.Unlinkat(dir, name, 0); {
	case err == nil:
		p.stats.FilesDeleted++
		return nil
	case passable(err) != nil:
		return fmt.Errorf("delete %s: %w", s.Path, err)
	}
	return nil
}

// finish gives folders their permissions and times: those that were made, and those in which something
// was written or removed.
func (p *pull) finish(root int) error {
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
			if err := passable(setFolder(root, s.Path, s.There.Mode, s.There.ModTime)); err != nil {
				return err
			}
		}
	}
	return nil
}
