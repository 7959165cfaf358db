package files

import (
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// MaxPath is how many bytes a path may have, as in Linux itself.
const MaxPath = 4095

// maxName is how many bytes one name may have.
const maxName = 255

// Clean turns a path that somebody sent into one for an [FS]. Empty, "." and "./" are the root; a slash
// at the end is dropped.
//
// Every spelling that leaves the root, or that some program would take for one that does, is
// path_outside_workspace: segments of two or more dots, also behind a backslash or percent-encoded once
// more; a slash or backslash in front; a '~' in front as in ~, ~/x and ~user (./~user is a file of that
// name). What no request needs is invalid_path: NUL and other control characters, text that is not UTF-8,
// an empty segment, and more than [MaxPath] bytes. A file may have such a name all the same: lists show
// it, archives carry it, and it goes with its folder.
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

// leaves reports whether a path leads out of where it starts, in any program's reading.
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

// tilde reports whether a shell would take the beginning for a home directory.
func tilde(name string) bool {
	rest, ok := strings.CutPrefix(name, "~")
	if !ok {
		return false
	}
	user, _, _ := strings.Cut(rest, "/")
	return user == "" || user == "+" || user == "-" || user[0] == '_' || unicode.IsLetter(rune(user[0]))
}

// encodedLeaves looks for what leaves under further layers of percent encoding, which a program behind
// us might take off.
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
	return sandbox.Errorf("", api.CodePathOutside, "the path %q leads out of its root", clip(name))
}

func invalid(format string, args ...any) error {
	return sandbox.Errorf("", api.CodeInvalidPath, format, args...)
}

// clip keeps what a caller sent from filling an error.
func clip(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
