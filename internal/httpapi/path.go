package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

const maxPathBytes = 4096

// checkPath refuses every path that could mean something else after decoding or cleaning. The mux
// would hand "..%2f" on decoded and answer "a//b" with a redirect; neither gets that far.
func checkPath(r *http.Request) error {
	path := r.URL.EscapedPath()
	if _, door := doors[path]; door {
		return nil
	}
	path, name, isFile := cutFilePath(path)
	if isFile {
		if err := checkFilePath(name); err != nil {
			return err
		}
	}
	if len(path) > maxPathBytes {
		return badPath("the path is longer than %d bytes", maxPathBytes)
	}
	own, inside := splitPort(path)
	rest, ok := strings.CutPrefix(own, "/")
	if !ok {
		return badPath("the path does not begin with '/'")
	}
	if err := checkSegments(rest); err != nil {
		return err
	}
	return checkInside(inside)
}

// checkSegments looks at each segment of a path. The one behind projects is the id of one, which its owner
// chose: an encoded slash is a part of it.
func checkSegments(path string) error {
	const at = 3 // api, v1, projects, id
	own := strings.HasPrefix(path, projectsPath[1:]+"/")
	for i, segment := range strings.Split(path, "/") {
		check := checkSegment
		if own && i == at {
			check = checkChosen
		}
		if err := check(segment); err != nil {
			return err
		}
	}
	return nil
}

// checkChosen refuses of an id what a proxy before us would clean away after decoding it.
func checkChosen(escaped string) error {
	id, err := decodePath(escaped)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(id, "/") {
		if err := checkPart(part); err != nil {
			return err
		}
	}
	return nil
}

// checkInside is milder with what comes behind a sandbox's port: it is for whoever listens there, who may
// tell a final slash or an encoded one from none. It refuses what the mux, or a proxy before us, would
// clean away.
func checkInside(path string) error {
	rest := strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	if rest == "" {
		return nil
	}
	for segment := range strings.SplitSeq(rest, "/") {
		plain := strings.NewReplacer("%2f", "", "%2F", "", "%5c", "", "%5C", "").Replace(segment)
		if plain == "" && segment != "" {
			continue
		}
		if err := checkSegment(plain); err != nil {
			return err
		}
	}
	return nil
}

// decodePath takes the percent encoding off.
func decodePath(escaped string) (string, error) {
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return "", badPath("the path holds a broken percent escape")
	}
	return name, nil
}

func checkSegment(escaped string) error {
	segment, err := decodePath(escaped)
	switch {
	case err != nil:
		return err
	case strings.ContainsAny(segment, `/\`):
		return badPath("the path has an encoded slash or a backslash")
	}
	return checkPart(segment)
}

func checkPart(segment string) error {
	switch {
	case segment == "":
		return badPath("the path has an empty segment: a doubled or final '/'")
	case segment == "." || segment == "..":
		return badPath("the path has a segment of dots")
	case !utf8.ValidString(segment):
		return badPath("the path is not valid UTF-8")
	case strings.ContainsFunc(segment, unicode.IsControl):
		return badPath("the path has a control character")
	}
	return nil
}

func badPath(format string, args ...any) error {
	return sandbox.Errorf("", api.CodeInvalidPath, format, args...)
}

// checkQuery refuses a query that would be read otherwise than it was meant: net/url drops what it
// cannot decode, and a database refuses NUL and broken UTF-8 in a text.
func checkQuery(r *http.Request) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return sandbox.Errorf("", api.CodeInvalidRequest, "the query cannot be decoded: it has a ';' or a broken percent escape")
	}
	for name, all := range values {
		for _, text := range append(all, name) {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return sandbox.Errorf("", api.CodeInvalidRequest, "the query parameter %q holds a NUL or is not valid UTF-8", clip(name))
			}
		}
	}
	return nil
}
