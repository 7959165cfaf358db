package workspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// doors are the folders of a tree that their owner may not write in, and in which something is to be
// written: they are opened for as long as that takes.
type doors struct {
	*Repo
	all    []door // by path
	opened int
}

type door struct {
	path string
	set  bool // the version says what its permissions become
	mode uint32
	ns   int64
}

// closedFolders finds them.
func (p *pull) closedFolders() *doors {
	d := &doors{Repo: p.Repo}
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
				d.all = append(d.all, door{dir, in.Act == Down, in.Here.Mode, in.Here.ModTime})
				delete(closed, dir)
			}
		}
	}
	slices.SortFunc(d.all, func(a, b door) int { return strings.Compare(a.path, b.path) })
	return d
}

// open lets the owner in, from the root down. After a crash the next restore sees what was opened.
func (d *doors) open(root int) error {
	for _, door := range d.all {
		if err := openUp(root, door.path, unfinishedFolder); err != nil {
			return fmt.Errorf("open the folder %s: %w", door.path, err)
		}
		d.opened++
		d.at("folder opened")
	}
	return nil
}

// shut undoes open, but for what the version has set when all was done.
func (d *doors) shut(root int, done bool) (err error) {
	for _, door := range slices.Backward(d.all[:d.opened]) {
		if !done || !door.set {
			err = errors.Join(err, passable(setFolder(root, door.path, door.mode, door.ns)))
		}
	}
	return err
}
