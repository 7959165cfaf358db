package blob

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Bounds of keys, in bytes. S3 takes 1,024 with the store's own prefix; servers that keep objects in
// files take 255 between two slashes.
const (
	MaxKey     = 900
	MaxSegment = 255
)

// CheckKey says what is wrong with a key. A key is a relative slash path of UTF-8 text without empty,
// "." and ".." segments, and without control characters and others that XML, in which S3 lists keys,
// cannot carry.
func CheckKey(key string) error {
	const op = "check key"
	switch {
	case key == "":
		return sandbox.Errorf(op, api.CodeInvalidPath, "the key is empty")
	case len(key) > MaxKey:
		return sandbox.Errorf(op, api.CodeInvalidPath, "the key %.60q… has %d bytes; %d is the most", key, len(key), MaxKey)
	case !utf8.ValidString(key):
		return sandbox.Errorf(op, api.CodeInvalidPath, "the key %.60q is not UTF-8", key)
	case strings.ContainsFunc(key, unlistable):
		return sandbox.Errorf(op, api.CodeInvalidPath, "the key %.60q has a control character", key)
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch {
		case segment == "":
			return sandbox.Errorf(op, api.CodeInvalidPath, "the key %.60q has an empty part", key)
		case segment == "." || segment == "..":
			return sandbox.Errorf(op, api.CodeInvalidPath, "the key %.60q has the part %q", key, segment)
		case len(segment) > MaxSegment:
			return sandbox.Errorf(op, api.CodeInvalidPath, "the key %.60q… has a part of %d bytes; %d is the most", key, len(segment), MaxSegment)
		}
	}
	return nil
}

func unlistable(r rune) bool { return unicode.IsControl(r) || r == '\uFFFE' || r == '\uFFFF' }
