package blob

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Limits of keys in bytes. S3 accepts 1,024 bytes including the store's prefix. Servers that keep objects in files
// accept 255 bytes between two slashes.
const (
	MaxKey     = 900
	MaxSegment = 255
)

// CheckKey returns an error if a key is not valid. A key is a relative slash path of UTF-8 text. It has no empty,
// "." or ".." segments and no control characters. It has no characters that XML cannot contain, because S3 lists
// are XML.
func CheckKey(key string) error {
	const op = "check key"
	switch {
	case key == "":
		return fault.Errorf(op, api.CodeInvalidPath, "the key is empty")
	case len(key) > MaxKey:
		return fault.Errorf(op, api.CodeInvalidPath, "the key %.60q… has %d bytes; %d is the most", key, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fault.Errorf(op, api.CodeInvalidPath, "the key %.60q is not UTF-8", key)
	case strings.ContainsFunc(key, unlistable):
		return fault.Errorf(op, api.CodeInvalidPath, "the key %.60q has a control character", key)
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch {
		case segment == "":
			return fault.Errorf(op, api.CodeInvalidPath, "the key %.60q has an empty part", key)
		case segment == "." || segment == "..":
			return fault.Errorf(op, api.CodeInvalidPath, "the key %.60q has the part %q", key, segment)
		case len(segment) > MaxSegment:
			return fault.Errorf(op, api.CodeInvalidPath, "the key %.60q… has a part of %d bytes; %d is the most", key, len(segment), MaxSegment)
		}
	}
	return nil
}

func unlistable(r rune) bool { return unicode.IsControl(r) || r == '\uFFFE' || r == '\uFFFF' }
