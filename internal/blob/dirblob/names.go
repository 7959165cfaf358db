package dirblob

import (
	"strings"

	"github.com/berthdev/berth/internal/blob"
)

// The path of an object has one name for each segment of the key. A suffix marks the type of the name, so that the
// objects "a" and "a/b" have different names ("a.o", "a.d/b.o"):
//
//	name.o   an object
//	name.d   a folder
//	name.p   a folder for all segments that begin with these 128 bytes
//
// File systems limit the length of a name, so the rest of a longer segment is in a .p folder. A segment of exactly
// 128 bytes is also in a .p folder, with an empty rest ("….p/.o"). This way no name next to a .p folder begins with
// the 128 bytes of that folder, and the order of entries is the order of keys.
const (
	objectEnd = ".o"
	folderEnd = ".d"
	partEnd   = ".p"

	wholeName = 128 // segments of at least this length are split
)

// pathOf returns the folder and the name of an object below objects.
func pathOf(key string) (folder, name string) {
	var b strings.Builder
	for {
		segment, rest, more := strings.Cut(key, "/")
		for len(segment) >= wholeName {
			b.WriteString(segment[:wholeName] + partEnd + "/")
			segment = segment[wholeName:]
		}
		if !more {
			return strings.TrimSuffix(b.String(), "/"), segment + objectEnd
		}
		b.WriteString(segment + folderEnd + "/")
		key = rest
	}
}

// folderOf returns the path of the folder for a key prefix. The prefix is empty or ends with a slash.
func folderOf(prefix string) string {
	folder, _ := pathOf(prefix + "x")
	return folder
}

// entry is a name in a folder, split into text and suffix.
type entry struct {
	text string // part of the key: "a" for an object, "a/" for a folder; entries are sorted by it
	end  string
}

func (e entry) file() string { return strings.TrimSuffix(e.text, "/") + e.end }

// entryOf parses a name. It returns false for a name that the store does not use.
func entryOf(name string) (e entry, ok bool) {
	if len(name) < len(objectEnd) {
		return entry{}, false
	}
	text, end := name[:len(name)-len(objectEnd)], name[len(name)-len(objectEnd):]
	switch {
	case strings.Contains(text, "/"):
		return entry{}, false
	case end == objectEnd && len(text) < wholeName:
		return entry{text, end}, true
	case end == folderEnd && len(text) < wholeName:
		return entry{text + "/", end}, true
	case end == partEnd && len(text) == wholeName:
		return entry{text, end}, true
	}
	return entry{}, false
}

// isKey reports whether the text is a valid key.
func isKey(text string) bool { return blob.CheckKey(text) == nil }
