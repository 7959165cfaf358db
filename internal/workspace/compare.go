package workspace

import (
	"fmt"
	"strings"
)

// Act is the action for one path.
type Act byte

// The actions. "Here" is the tree; "there" is the newest version in the store.
const (
	Keep     Act = '=' // equal on both sides
	Up       Act = '^' // changed here only: write it to the store
	UpGone   Act = '-' // removed here only: remove it from the store
	Down     Act = 'v' // changed there only: write it to the tree
	DownGone Act = 'x' // removed there only: remove it from the tree
	Both     Act = '!' // changed on both sides: keep both
)

// Step is the action for one path. Base, Here and There are the entries at the path in each tree, or nil.
type Step struct {
	Path              string
	Act               Act
	Base, Here, There *Entry
	here, there       int // indexes of Here and There in the compared lists
}

// Compare decides the action for every path of three trees: the last synced version (base), here, and there. Each
// list is sorted by path and read once. With an empty base, an entry on one side only is new, and nothing is
// deleted on either side.
func Compare(base, here, there []Entry) []Step {
	steps := make([]Step, 0, max(len(here), len(there)))
	hereAll, thereAll := len(here), len(there)
	for len(base) > 0 || len(here) > 0 || len(there) > 0 {
		path := least(base, here, there)
		s := Step{Path: path, here: hereAll - len(here), there: thereAll - len(there)}
		s.Base, s.Here, s.There = take(&base, path), take(&here, path), take(&there, path)
		if s.Act = decide(s.Base, s.Here, s.There); s.Act != 0 {
			steps = append(steps, s)
		}
	}
	return steps
}

func least(lists ...[]Entry) (path string) {
	first := true
	for _, l := range lists {
		if len(l) > 0 && (first || l[0].Path < path) {
			path, first = l[0].Path, false
		}
	}
	return path
}

func take(list *[]Entry, path string) *Entry {
	if len(*list) == 0 || (*list)[0].Path != path {
		return nil
	}
	e := &(*list)[0]
	*list = (*list)[1:]
	return e
}

// decide returns the action for one path, or zero if the path is absent on both sides.
func decide(base, here, there *Entry) Act {
	mine, theirs := changed(base, here), changed(base, there)
	switch {
	case here == nil && there == nil:
		return 0
	case alike(here, there):
		return Keep
	case mine && !theirs:
		return either(here != nil, Up, UpGone)
	case !mine:
		return either(there != nil, Down, DownGone)
	case here == nil: // removed here, changed there: keep the change
		return Down
	case there == nil:
		return Up
	case here.content(there):
		return Up // same bytes with other times or permissions: keep those of the tree
	}
	return Both
}

// changed reports whether an entry differs from its base.
func changed(base, side *Entry) bool { return !alike(base, side) }

func alike(a, b *Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Kind == Folder && b.Kind == Folder {
		return a.Mode == b.Mode // a folder's time changes with its contents
	}
	return a.same(b)
}

func either(is bool, yes, no Act) Act {
	if is {
		return yes
	}
	return no
}

// conflictName returns the nth possible name for the second copy of a conflicting file.
func conflictName(path, version string, n int) string {
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i+1], path[i+1:]
	}
	suffix := ".conflict-" + version
	if n > 0 {
		suffix += fmt.Sprintf("-%d", n+1)
	}
	if most := maxName - len(suffix); len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return dir + name + suffix
}
