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
	"github.com/berthdev/berth/internal/fault"
)

// Kind is the type of an entry: file, folder or link.
type Kind byte

// The kinds that can be saved.
const (
	File   Kind = 'f'
	Folder Kind = 'd'
	Link   Kind = 'l'
)

// Sum holds the checksums of a file's bytes. Two files are equal if their SHA-256 is equal. MD5 is for older
// readers.
type Sum struct {
	SHA256 [sha256.Size]byte
	MD5    [md5.Size]byte
}

// Entry is one file, folder or symbolic link of a tree.
type Entry struct {
	Path    string // relative to the root, separated by slashes
	Kind    Kind
	Mode    uint32 // permissions
	Size    int64
	ModTime int64  // nanoseconds since 1970
	Target  string // text of a symbolic link

	Sum Sum
	At  PackOffset // location of a file's bytes
}

// PackOffset locates the bytes of a file in a pack, or in a separate object for the plain layout.
type PackOffset struct {
	Pack   int // index into Manifest.Packs
	Offset int64
}

// same reports whether two entries are equal. The location of their bytes does not count.
func (e *Entry) same(o *Entry) bool {
	return e.content(o) && e.Mode == o.Mode && (e.Kind == Link || e.ModTime == o.ModTime)
}

// content reports whether two entries have the same bytes. Times and permissions do not count.
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

// bytes reports whether two files of the same size have the same bytes. It compares a checksum that both have. A
// version of another tool may have only MD5 or no checksum; without a common checksum the modification times are
// compared.
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

// none means that no checksum was computed. unread marks a file that could not be read; it equals no real checksum.
var (
	none   Sum
	unread = Sum{SHA256: [sha256.Size]byte{0xff}, MD5: [md5.Size]byte{0xff}}
)

func byPath(a, b Entry) int { return cmp.Compare(a.Path, b.Path) }

// StateFile is the name of the manifest in the root of a tree and in the folder of each version.
const StateFile = ".sandbox-state"

// ours reports whether a path is a file of Berth in the root of a tree. Such files are never part of a version.
func ours(path string) bool {
	return strings.HasPrefix(path, StateFile) && !strings.Contains(path, "/")
}

// Limits of a saved or restored tree.
const (
	maxPath   = 8191 // bytes; about 4,000 nested folders
	maxName   = 255
	maxTarget = 4095
)

// checkPath returns an error if a path of a manifest is not valid. Manifests may come from an attacker, and no
// later code checks the path before it is used in the file system.
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

// checkEntries checks the entries of a manifest: each is valid, they are sorted by path without duplicates, and the
// parent of each is a folder in the list.
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

// hasFolder reports whether a sorted list has a folder at the path.
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
	return fault.Errorf("read manifest", api.CodeBadManifest, format, args...)
}

// clip shortens a path or key for an error message and makes it valid UTF-8.
func clip(s string) string { return strings.ToValidUTF8(fault.Clip(s, 120), string(utf8.RuneError)) }

// String formats the entry for messages and tests.
func (e Entry) String() string {
	switch e.Kind {
	case Folder:
		return fmt.Sprintf("%s/ %o", e.Path, e.Mode)
	case Link:
		return fmt.Sprintf("%s -> %s", e.Path, e.Target)
	}
	return fmt.Sprintf("%s %o %d bytes %x", e.Path, e.Mode, e.Size, e.Sum.SHA256[:4])
}
