package workspace

import (
	"cmp"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Kind is what sort of thing an entry is.
type Kind byte

// The kinds that can be saved.
const (
	File   Kind = 'f'
	Folder Kind = 'd'
	Link   Kind = 'l'
)

// Sum is the two checksums of a file's bytes. SHA-256 decides whether two files are the same; MD5 is
// written for older readers.
type Sum struct {
	SHA256 [sha256.Size]byte
	MD5    [md5.Size]byte
}

// Entry is one file, folder or symbolic link of a tree.
type Entry struct {
	Path    string // relative, slashes
	Kind    Kind
	Mode    uint32 // permissions
	Size    int64
	ModTime int64  // nanoseconds since 1970
	Target  string // of a link, as it is written

	Sum Sum
	At  Place // where a file's bytes are
}

// Place is where the bytes of a file are: in a pack of the manifest, or in an object of the file's own.
type Place struct {
	Pack   int // index into Manifest.Packs
	Offset int64
}

// same reports whether two entries stand for the same thing, wherever their bytes are.
func (e *Entry) same(o *Entry) bool {
	return e.content(o) && e.Mode == o.Mode && (e.Kind == Link || e.ModTime == o.ModTime)
}

// content reports whether two entries have the same bytes, whatever their times and permissions.
func (e *Entry) content(o *Entry) bool {
	if e.Kind != o.Kind {
		return false
	}
	switch e.Kind {
	case File:
		return e.Size == o.Size && e.bytes(o)
	case Link:
		return e.Target == o.Target
	}
	return true
}

// bytes compares the checksums that both have. A version that others wrote may have MD5 alone, or none:
// then the time decides, as it does for them.
func (e *Entry) bytes(o *Entry) bool {
	a, b := &e.Sum, &o.Sum
	switch {
	case a.SHA256 != none.SHA256 && b.SHA256 != none.SHA256:
		return a.SHA256 == b.SHA256
	case a.MD5 != none.MD5 && b.MD5 != none.MD5:
		return a.MD5 == b.MD5
	}
	return e.Size == 0 || e.ModTime == o.ModTime
}

// none is the checksum of a file of which nobody has computed any; unread that of one which could not be
// read, and so is like no other.
var (
	none   Sum
	unread = Sum{SHA256: [sha256.Size]byte{0xff}, MD5: [md5.Size]byte{0xff}}
)

func byPath(a, b Entry) int { return cmp.Compare(a.Path, b.Path) }

// StateFile is what the manifest of a tree is called, in its root and in every version.
const StateFile = ".sandbox-state"

// ours reports whether a path of the root belongs to Berth itself and is never part of a version.
func ours(path string) bool {
	return strings.HasPrefix(path, StateFile) && !strings.Contains(path, "/")
}

// Bounds of a tree that is saved or restored.
const (
	maxPath   = 8191 // some 4,000 folders within each other
	maxName   = 255
	maxTarget = 4095
)

// checkPath says what is wrong with a path of a manifest, or nil. It is written by whoever wrote the
// manifest, and nothing else stands between it and the file system.
func checkPath(path string) error {
	switch {
	case path == "":
		return bad("an entry has no path")
	case len(path) > maxPath:
		return bad("a path has %d bytes, more than %d", len(path), maxPath)
	case path[0] == '/' || strings.ContainsRune(path, 0):
		return bad("the path %q is absolute, or holds a NUL", clip(path))
	case ours(path):
		return bad("the path %q is Berth's own", clip(path))
	}
	for rest, more := path, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		switch {
		case name == "" || name == "." || name == "..":
			return bad("the path %q has the segment %q", clip(path), name)
		case len(name) > maxName:
			return bad("the path %q has a name of %d bytes", clip(path), len(name))
		case isTemp(name):
			return bad("the path %q is that of a file which was being written", clip(path))
		}
	}
	return nil
}

// checkEntries says what is wrong with the entries of a manifest, or nil: their order, that each is in a
// folder, and that none leaves the tree.
func checkEntries(entries []Entry, packs []Pack) error {
	last := "" // the root is a folder
	for i := range entries {
		e := &entries[i]
		if err := checkPath(e.Path); err != nil {
			return err
		}
		if i > 0 && entries[i-1].Path >= e.Path {
			return bad("the path %q comes twice, or out of order", clip(e.Path))
		}
		if err := e.check(packs); err != nil {
			return err
		}
		parent := parentOf(e.Path)
		if parent != last && parent != "" && !hasFolder(entries[:i], parent) {
			return bad("the path %q is in no folder", clip(e.Path))
		}
		last = parent
	}
	return nil
}

// hasFolder reports whether a sorted list has a folder.
func hasFolder(entries []Entry, path string) bool {
	at, ok := sort.Find(len(entries), func(i int) int { return strings.Compare(path, entries[i].Path) })
	return ok && entries[at].Kind == Folder
}

func (e *Entry) check(packs []Pack) error {
	switch e.Kind {
	case Folder:
	case Link:
		if e.Target == "" || len(e.Target) > maxTarget || strings.ContainsRune(e.Target, 0) {
			return bad("the link %q has no valid target", clip(e.Path))
		}
	case File:
		if e.Size < 0 {
			return bad("the file %q has the size %d", clip(e.Path), e.Size)
		}
		if e.Size == 0 {
			return nil
		}
		if e.At.Pack < 0 || e.At.Pack >= len(packs) {
			return bad("the file %q is in a pack that the manifest does not name", clip(e.Path))
		}
		if p := packs[e.At.Pack]; e.At.Offset < 0 || e.At.Offset > p.Size-e.Size {
			return bad("the file %q lies outside its pack", clip(e.Path))
		}
	default:
		return bad("%q is neither file, folder nor link", clip(e.Path))
	}
	return nil
}

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}

func nameOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func bad(format string, args ...any) error {
	return sandbox.Errorf("read manifest", api.CodeBadManifest, format, args...)
}

func clip(s string) string {
	const most = 120
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// String is for people and tests.
func (e Entry) String() string {
	switch e.Kind {
	case Folder:
		return fmt.Sprintf("%s/ %o", e.Path, e.Mode)
	case Link:
		return fmt.Sprintf("%s -> %s", e.Path, e.Target)
	}
	return fmt.Sprintf("%s %o %d bytes %x", e.Path, e.Mode, e.Size, e.Sum.SHA256[:4])
}
