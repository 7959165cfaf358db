package workspace

import (
	"fmt"
	"strings"
)

// Act is what to do about one path.
type Act byte

// What can be done. Here is the tree, there is the store.
const (
	Keep     Act = '=' // the same on both sides
	Up       Act = '^' // changed here alone: goes to the store
	UpGone   Act = '-' // removed here alone: goes from the store
	Down     Act = 'v' // changed there alone: comes here
	DownGone Act = 'x' // removed there alone: goes here
	Both     Act = '!' // changed on both sides: kept twice
)

// Step is one path and what to do about it. The entries are those of the three trees, nil where the path
// is in none of them.
type Step struct {
	Path              string
	Act               Act
	Base, Here, There *Entry
	here, there       int // where they are in their lists
}

// Compare decides what to do about every path of three trees, each sorted by path: as they last were the
// same, here, and there. It looks at each entry once. Without a base nothing is known to have been
// removed: what is on one side alone is new, and nothing is deleted on either.
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

// decide is about one path; zero is nothing at all: gone on both sides.
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
	case here == nil: // removed here, changed there: what was changed is kept
		return Down
	case there == nil:
		return Up
	case here.content(there):
		return Up // the same bytes with other times or permissions: ours are as good as theirs
	}
	return Both
}

// changed reports whether a side differs from the base.
func changed(base, side *Entry) bool { return !alike(base, side) }

func alike(a, b *Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Kind == Folder && b.Kind == Folder {
		return a.Mode == b.Mode // a folder's time changes with what is in it
	}
	return a.same(b)
}

func either(is bool, yes, no Act) Act {
	if is {
		return yes
	}
	return no
}

// conflictName is where the other side's copy of a file goes that was changed on both: the nth name that
// is tried.
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
