// Package tarball packs a folder of this machine for a sandbox and unpacks what comes out of one.
//
// [Pack] follows no link and reads nothing but plain files. [Unpack] takes an archive from a stranger: it
// works in an [os.Root], so that nothing leads out of the folder, writes through no link, leaves out what
// is no file, folder or link within the folder, and never replaces a folder by anything else.
package tarball

import "fmt"

// Tally is what has been copied.
type Tally struct {
	Files   int    `json:"files"`
	Folders int    `json:"folders"`
	Links   int    `json:"links"`
	Bytes   int64  `json:"bytes"`
	Left    []Left `json:"left_out,omitempty"`
}

// Left is one that was left out.
type Left struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Watch is told of progress: files begun and bytes copied since it was told last. Nil: nobody wants to
// know.
type Watch func(files int, bytes int64)

func (w Watch) tell(files int, bytes int64) {
	if w != nil {
		w(files, bytes)
	}
}

func (t *Tally) leave(name, why string, args ...any) {
	t.Left = append(t.Left, Left{name, fmt.Sprintf(why, args...)})
}
