// Package tarball packs a folder of this machine for a sandbox and unpacks archives from a sandbox.
//
// [Pack] follows no links and reads only regular files. [Unpack] does not trust the archive: it works in an [os.Root],
// so that it writes nothing outside of the folder, and does not write through links. It leaves out everything but
// files, folders and links within the folder, and never replaces a folder by something else.
package tarball

import "fmt"

// Tally counts what was copied and lists what was left out.
type Tally struct {
	Files   int    `json:"files"`
	Folders int    `json:"folders"`
	Links   int    `json:"links"`
	Bytes   int64  `json:"bytes"`
	Left    []Left `json:"left_out,omitempty"`
}

// Left is an entry that was left out, and the reason.
type Left struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Watch is called with the progress: files begun and bytes copied since the last call. It may be nil.
type Watch func(files int, bytes int64)

func (w Watch) report(files int, bytes int64) {
	if w != nil {
		w(files, bytes)
	}
}

func (t *Tally) leaveOut(name, why string, args ...any) {
	t.Left = append(t.Left, Left{name, fmt.Sprintf(why, args...)})
}
