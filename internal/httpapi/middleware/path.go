package middleware

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// Redirects maps paths that people type to the pages that they mean. Only these paths and the console's may end in a slash.
var Redirects = map[string]string{"/docs/": "/docs", "/docs/problems/": "/docs/problems"}

// checkFilePath checks the escaped part of a path after …/files/. It refuses a path that the mux would clean with a
// redirect.
func checkFilePath(escaped string) error {
	name, err := decodePath(escaped)
	if err != nil {
		return err
	}
	if _, err := files.Clean(name); err != nil {
		return err
	}
	switch {
	case name == "":
		return badPath("the path names no file")
	case slices.Contains(strings.Split(escaped, "/"), "."):
		return badPath("the path has a segment of one dot")
	}
	return nil
}

// cutFilePath splits the path of a sandbox's file into the part up to …/files and the file's path.
func cutFilePath(escaped string) (to, name string, ok bool) {
	for _, base := range []string{exchange.SandboxesPath + "/", "/api/v1/sandbox/"} {
		rest, found := strings.CutPrefix(escaped, base)
		if !found {
			continue
		}
		id, rest, _ := strings.Cut(rest, "/")
		if name, found := strings.CutPrefix(rest, "files/"); found {
			return base + id + "/files", name, true
		}
	}
	return escaped, "", false
}

const maxPathBytes = 4096

// CheckPath refuses paths that change their meaning when they are decoded or cleaned. Without it, the mux would
// decode "..%2f" and pass it on, and would redirect "a//b".
func CheckPath(r *http.Request) error {
	path := r.URL.EscapedPath()
	if _, isRedirect := Redirects[path]; isRedirect || path == "/" {
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
	own, inside := SplitPort(path)
	rest, ok := strings.CutPrefix(own, "/")
	if !ok {
		return badPath("the path does not begin with '/'")
	}
	if err := checkSegments(rest); err != nil {
		return err
	}
	return checkInside(inside)
}

// checkSegments checks each segment of a path. The segment after projects is an id that the caller chose, which may
// contain an encoded slash.
func checkSegments(path string) error {
	const at = 3 // api, v1, projects, id
	own := strings.HasPrefix(path, exchange.ProjectsPath[1:]+"/")
	for i, segment := range strings.Split(path, "/") {
		check := checkSegment
		if own && i == at {
			check = checkProjectID
		}
		if err := check(segment); err != nil {
			return err
		}
	}
	return nil
}

// checkProjectID refuses an id that a proxy would change by decoding and cleaning the path.
func checkProjectID(escaped string) error {
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

// checkInside checks the path on a sandbox's port. It allows a final slash and encoded slashes, because the server in
// the sandbox may distinguish them. It refuses parts that the mux or a proxy would clean away.
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

// decodePath decodes percent escapes.
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
	return fault.Errorf("", api.CodeInvalidPath, format, args...)
}

// CheckQuery refuses a query that would not arrive as it was sent: net/url drops parts that it cannot decode, and a
// database refuses NUL and invalid UTF-8.
func CheckQuery(r *http.Request) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.Errorf("", api.CodeInvalidRequest, "the query cannot be decoded: it has a ';' or a broken percent escape")
	}
	for name, all := range values {
		for _, text := range append(all, name) {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return fault.Errorf("", api.CodeInvalidRequest, "the query parameter %q holds a NUL or is not valid UTF-8", exchange.Clip(name))
			}
		}
	}
	return nil
}

// SplitPort splits an escaped path after the port. rest is the path on the server in the sandbox. It is empty if the
// path names no port.
func SplitPort(path string) (prefix, rest string) {
	segments := strings.SplitN(path, "/", 8) // "", api, v1, sandboxes, id, ports, port, rest
	if len(segments) < 8 || segments[1] != "api" || segments[2] != "v1" || segments[5] != "ports" ||
		segments[3] != "sandboxes" && segments[3] != "sandbox" {
		return path, ""
	}
	return strings.Join(segments[:7], "/"), "/" + segments[7]
}
