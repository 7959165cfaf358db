package workspace

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Limits bound a tree and its versions. Zero values mean the defaults.
type Limits struct {
	Entries int   // number of files, folders and links
	Bytes   int64 // total size of all files, holes included
	Stored  int64 // new bytes of one version in the store
}

// The default limits. A save or restore needs about a kilobyte of memory for each entry. Its memory does not depend
// on the size of the files.
const (
	DefaultMaxEntries = maxEntries
	DefaultMaxBytes   = int64(256) << 30
	DefaultMaxStored  = DefaultMaxBytes
)

// maxSize is larger than any real file, so that sums of sizes do not overflow.
const maxSize = int64(1) << 50

func (l Limits) entries() int {
	if l.Entries <= 0 || l.Entries > maxEntries {
		return maxEntries
	}
	return l.Entries
}

func (l Limits) bytes() int64 {
	if l.Bytes <= 0 {
		return DefaultMaxBytes
	}
	return l.Bytes
}

func (l Limits) stored() int64 {
	if l.Stored <= 0 {
		return DefaultMaxStored
	}
	return l.Stored
}

// largest returns a text that names the three largest files, for the error of a workspace that is too large.
func largest(seen []Seen) string {
	top := make([]*Seen, 0, 4)
	for i := range seen {
		if seen[i].Kind != File {
			continue
		}
		at := sort.Search(len(top), func(n int) bool { return top[n].Size < seen[i].Size })
		if at < 3 {
			top = slices.Insert(top, at, &seen[i])[:min(len(top)+1, 3)]
		}
	}
	var b strings.Builder
	for i, s := range top {
		fmt.Fprintf(&b, "%s %s (%d bytes)", []string{"; the largest files are", ",", ","}[i], clip(s.Path), s.Size)
	}
	return b.String()
}

// check returns an error if a version is too large to restore.
func (l Limits) check(m *Manifest) error {
	if len(m.Entries) > l.entries() {
		return tooLarge("the version has %d files and folders, more than %d", len(m.Entries), l.entries())
	}
	var bytes int64
	for i := range m.Entries {
		bytes += min(m.Entries[i].Size, maxSize)
		if bytes > l.bytes() {
			return tooLarge("the files of the version have more than %d bytes", l.bytes())
		}
	}
	return nil
}
