package workspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// readOnlyDirs are folders that their owner may not write but in which files must be written. They are writable
// during the pull.
type readOnlyDirs struct {
	*Repo
	all    []readOnlyDir // sorted by path
	opened int
}

type readOnlyDir struct {
	path string
	set  bool // the version sets the permissions of this folder
	mode uint32
	ns   int64 // modification time in nanoseconds
}

// findReadOnlyDirs finds the read-only folders in which the plan changes entries.
func (p *pull) findReadOnlyDirs() *readOnlyDirs {
	d := &readOnlyDirs{Repo: p.Repo}
	closed := map[string]*Step{}
	for i := range p.steps {
		if here := p.steps[i].Here; here != nil && here.Kind == Folder && here.Mode&0o700 != 0o700 {
			closed[here.Path] = &p.steps[i]
		}
	}
	if len(closed) == 0 {
		return d
	}
	for i := range p.steps {
		s := &p.steps[i]
		if s.Act != Down && s.Act != Both && s.Act != DownGone {
			continue
		}
		for dir := parentOf(s.Path); dir != ""; dir = parentOf(dir) {
			if in := closed[dir]; in != nil {
				d.all = append(d.all, readOnlyDir{dir, in.Act == Down, in.Here.Mode, in.Here.ModTime})
				delete(closed, dir)
			}
		}
	}
	slices.SortFunc(d.all, func(a, b readOnlyDir) int { return strings.Compare(a.path, b.path) })
	return d
}

// open makes the folders writable, parents first. After a crash the next restore sees them as changed.
func (d *readOnlyDirs) open(root int) error {
	for _, dir := range d.all {
		if err := makeAccessible(root, dir.path, unfinishedFolder); err != nil {
			return fmt.Errorf("open the folder %s: %w", dir.path, err)
		}
		d.opened++
		d.at("folder opened")
	}
	return nil
}

// restore sets the earlier permissions of the opened folders again. If the pull is done, it leaves out the folders
// whose permissions the version sets.
func (d *readOnlyDirs) restore(root int, done bool) (err error) {
	for _, dir := range slices.Backward(d.all[:d.opened]) {
		if !done || !dir.set {
			err = errors.Join(err, ignoreMissing(setFolder(root, dir.path, dir.mode, dir.ns)))
		}
	}
	return err
}
