package files

import (
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// MaxPath is the maximum number of bytes of a path, as in Linux.
const MaxPath = 4095

// maxName is the maximum number of bytes of one name.
const maxName = 255

// Clean converts a path of a request to one for an [FS]. Empty, "." and "./" are the root; a trailing slash is
// dropped.
//
// The error has the code path_outside_workspace if the path leaves the root, or if some program could interpret it so:
// a segment of two or more dots, also after a backslash or with further percent encoding; a leading slash or
// backslash; a leading '~' as in ~, ~/x and ~user (./~user is a file of that name). The code is invalid_path for NUL
// and other control characters, text that is not UTF-8, an empty segment, and more than [MaxPath] bytes. Existing
// files may still have such names: lists and archives contain them, and they are removed with their directory.
func Clean(name string) (string, error) {
	if err := checkText(name); err != nil {
		return "", err
	}
	if leaves(name) || encodedLeaves(name) {
		return "", outside(name)
	}
	if strings.Contains(name, "//") {
		return "", invalid("the path %q has an empty segment", clip(name))
	}
	if name = path.Clean(name); name == "." {
		return "", nil
	}
	return name, checkNames(name)
}

func checkText(name string) error {
	switch {
	case len(name) > MaxPath:
		return invalid("the path has %d bytes; at most %d are possible", len(name), MaxPath)
	case !utf8.ValidString(name):
		return invalid("the path is not valid UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return invalid("the path %q has a control character", clip(name))
	}
	return nil
}

func checkNames(name string) error {
	for segment := range strings.SplitSeq(name, "/") {
		if len(segment) > maxName {
			return invalid("the name %q has %d bytes; at most %d are possible", clip(segment), len(segment), maxName)
		}
	}
	return nil
}

// leaves reports whether any program could interpret the path as one that leaves its root.
func leaves(name string) bool {
	if strings.HasPrefix(name, "/") || strings.HasPrefix(name, `\`) || tilde(name) {
		return true
	}
	for segment := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if len(segment) > 1 && strings.Trim(segment, ".") == "" {
			return true
		}
	}
	return false
}

// tilde reports whether a shell would replace the beginning of name by a home directory.
func tilde(name string) bool {
	rest, ok := strings.CutPrefix(name, "~")
	if !ok {
		return false
	}
	user, _, _ := strings.Cut(rest, "/")
	return user == "" || user == "+" || user == "-" || user[0] == '_' || unicode.IsLetter(rune(user[0]))
}

// encodedLeaves reports whether the path leaves its root after up to three more rounds of percent decoding, which
// another program might do.
func encodedLeaves(name string) bool {
	for range 3 {
		decoded, err := url.PathUnescape(name)
		if err != nil || decoded == name {
			return false
		}
		if name = decoded; leaves(name) {
			return true
		}
	}
	return false
}

func outside(name string) error {
	return fault.Errorf("", api.CodePathOutside, "the path %q leads out of its root", clip(name))
}

func invalid(format string, args ...any) error {
	return fault.Errorf("", api.CodeInvalidPath, format, args...)
}

// clip shortens a text of the caller for an error.
func clip(text string) string { return fault.Clip(text, 100) }
