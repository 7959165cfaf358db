package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxFile is the maximum size of the file in bytes. It keeps a device or a log, given by mistake, from exhausting the
// memory.
const maxFile = 1 << 20

// file is a parsed configuration file. Its values still have their TOML types.
type file struct {
	path      string
	meta      toml.MetaData
	values    map[string]value
	templates map[string]Section
	problems  []Problem
	warnings  []string
}

// readFile parses the file at path. An empty path gives an empty file.
func readFile(path string) (*file, error) {
	f := &file{path: path, values: map[string]value{}}
	if path == "" {
		return f, nil
	}
	body, mode, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	var top map[string]toml.Primitive
	if f.meta, err = toml.Decode(string(body), &top); err != nil {
		return nil, syntaxError(path, err)
	}
	for _, key := range sortedByLine(f, top) {
		f.take(key, top[key])
	}
	f.warnReadable(mode)
	return f, nil
}

func readBounded(path string) ([]byte, fs.FileMode, error) {
	const fix = "give --config (or BERTH_CONFIG) the path of a readable TOML file, or leave it out"
	in, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read configuration file: %w; %s", err, fix)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("read configuration file: %w; %s", err, fix)
	}
	body, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read configuration file: %w; %s", err, fix)
	}
	if len(body) > maxFile {
		return nil, 0, fmt.Errorf("read configuration file: %s is larger than 1 MiB; %s", path, fix)
	}
	return body, info.Mode(), nil
}

// syntaxError adds the position to a TOML error. It does not repeat a message of the parser that may quote a secret.
func syntaxError(path string, err error) error {
	var parse toml.ParseError
	if !errors.As(err, &parse) {
		return fmt.Errorf("read configuration file %s: %w", path, err)
	}
	message := parse.Message
	quotes := strings.Contains(message, `"`) || strings.Contains(message, "out of range")
	if s, ok := known(parse.LastKey); quotes && parse.LastKey != "" && (!ok || s.Secret) {
		message = "the value of " + parse.LastKey + " is not valid TOML; put text in double quotes"
	}
	return fmt.Errorf("read configuration file %s: line %d, column %d: %s",
		path, parse.Position.Line, parse.Position.Col, message)
}

// take stores the value of one top-level key in f, or adds a problem if the key is unknown.
func (f *file) take(key string, p toml.Primitive) {
	var v any
	// Every TOML value decodes into an empty interface, so there is no error.
	_ = f.meta.PrimitiveDecode(p, &v)
	origin := f.origin(p)
	switch _, ok := known(key); {
	case ok:
		f.values[key] = value{v: v, origin: origin}
	case key == "templates":
		f.takeTemplates(p, v, origin)
	default:
		f.problems = append(f.problems, Problem{Key: key, Origin: origin,
			Why: "is not a setting", Fix: suggest(key, v)})
	}
}

func (f *file) warnReadable(mode fs.FileMode) {
	if mode.Perm()&0o077 == 0 {
		return
	}
	for _, s := range table {
		if _, ok := f.values[s.Key]; ok && s.Secret {
			f.warnings = append(f.warnings, fmt.Sprintf(
				"%s holds %s and other users may read it; chmod 600 %s", f.path, s.Key, f.path))
			return
		}
	}
}

// locator returns an error for every value. The parser adds the position to that error, and offers no other way to
// learn the position.
type locator struct{}

var errLocated = errors.New("located")

func (locator) UnmarshalTOML(any) error { return errLocated }

// line returns the line of a value. A table without a line ("a.b = 1" creates the table a) has the line of its first
// child.
func (f *file) line(p toml.Primitive) int {
	var located toml.ParseError
	errors.As(f.meta.PrimitiveDecode(p, &locator{}), &located)
	if located.Position.Line > 0 {
		return located.Position.Line
	}
	first := 0
	for _, child := range f.children(p) {
		if n := f.line(child); first == 0 || n < first {
			first = n
		}
	}
	return first
}

func sortedByLine(f *file, top map[string]toml.Primitive) []string {
	keys := make([]string, 0, len(top))
	for key := range top {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if n := f.line(top[a]) - f.line(top[b]); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	return keys
}
