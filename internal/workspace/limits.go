package workspace

// Limits bound a tree and a version of it. Zero is the default.
type Limits struct {
	Entries int   // files, folders and links
	Bytes   int64 // in all files
}

// What a workspace may have unless something else is asked for. Memory grows with the entries, by about a
// kilobyte for each while one is saved or restored, and not with the bytes.
const (
	DefaultMaxEntries = maxEntries
	DefaultMaxBytes   = int64(256) << 30
)

// maxSize is more than any file has, so that sums of sizes stay numbers.
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

// check says whether a version is too large to be restored.
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
