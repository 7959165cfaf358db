package dirblob

import (
	"strings"

	"github.com/berthdev/berth/internal/blob"
)

// A key's path has one name for each segment, with an ending that says what it is, so that the objects
// "a" and "a/b" have different names ("a.o", "a.d/b.o"):
//
//	name.o   an object
//	name.d   a folder
//	name.p   a folder with everything whose name begins with these 128 bytes
//
// Longer names go on in the latter, because a file system may not take them at once. Names of exactly
// 128 bytes go there, too, with nothing left to be said ("….p/.o"): so no name outside begins like one
// inside, and the order of entries is the order of keys.
const (
	objectEnd = ".o"
	folderEnd = ".d"
	partEnd   = ".p"

	wholeName = 128 // from here on a name is split
)

// pathOf is an object's path below objects.
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

// folderOf is the path of a folder of keys, which ends with a slash or is empty.
func folderOf(prefix string) string {
	folder, _ := pathOf(prefix + "x")
	return folder
}

// entry is a name in a folder, as what it stands for.
type entry struct {
	text string // what it adds to the keys below: "a" for an object, "a/" for a folder; entries sort by it
	end  string
}

func (e entry) file() string { return strings.TrimSuffix(e.text, "/") + e.end }

// entryOf reads a name. What is not ours is not ok.
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

// isKey reports whether the text of an object is a key, and was not made by hand.
func isKey(text string) bool { return blob.CheckKey(text) == nil }
