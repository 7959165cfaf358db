package workspace

import (
	"errors"
	"io"
	"path"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// IgnoreFile in the root of a tree names what is left out of its versions.
const IgnoreFile = ".berthignore"

// Bounds of an ignore file, which is written by whoever works in the tree.
const (
	MaxIgnore = 64 << 10
	maxRules  = 1000
	// maxPattern is longer than a pattern of any sense.
	maxPattern = 1000
)

// Ignore says which paths are left out of versions, by the rules of gitignore: the last that matches
// decides, and what is below a folder that is left out is left out, too.
type Ignore struct{ rules []rule }

type rule struct {
	parts      []string // of the pattern, "**" for any number of folders
	name       string   // the one part of a pattern about names, which needs no more than that
	literal    bool     // the name has nothing to be matched
	keep       bool     // a pattern with "!": what it matches is not left out
	folderOnly bool
}

// ParseIgnore reads an ignore file.
func ParseIgnore(text string) (*Ignore, error) {
	if len(text) > MaxIgnore {
		return nil, badIgnore("it has %d bytes, more than %d", len(text), MaxIgnore)
	}
	g := new(Ignore)
	for line := range strings.Lines(text) {
		if r, ok := parseRule(strings.TrimRight(line, "\r\n")); ok {
			g.rules = append(g.rules, r)
		}
		if len(g.rules) > maxRules {
			return nil, badIgnore("it has more than %d rules", maxRules)
		}
	}
	return g, nil
}

func badIgnore(format string, args ...any) error {
	e := sandbox.Errorf("read "+IgnoreFile, api.CodeInvalidRequest, format, args...)
	e.Hint = "Write one gitignore pattern per line."
	return e
}

// parseRule reads one line. A pattern that is none matches nothing, as with git: a workspace must not go
// unsaved for it.
func parseRule(line string) (r rule, ok bool) {
	line = trimSpaces(line)
	if line == "" || line[0] == '#' || len(line) > maxPattern {
		return r, false
	}
	if r.keep = line[0] == '!'; r.keep {
		line = line[1:]
	}
	if r.folderOnly = strings.HasSuffix(line, "/"); r.folderOnly {
		line = strings.TrimSuffix(line, "/")
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	for part := range strings.SplitSeq(line, "/") {
		part = strings.ReplaceAll(part, "[!", "[^")
		if _, err := path.Match(part, ""); err != nil {
			return r, false
		}
		if part != "**" || len(r.parts) == 0 || r.parts[len(r.parts)-1] != "**" {
			r.parts = append(r.parts, part)
		}
	}
	if !anchored {
		r.name, r.literal = r.parts[0], !strings.ContainsAny(r.parts[0], `*?[\`)
		r.parts = append([]string{"**"}, r.parts...)
	}
	return r, true
}

// trimSpaces cuts spaces off the end, but for one that is escaped.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// Match reports whether a path is left out. Nil leaves nothing out.
func (g *Ignore) Match(name string, folder bool) bool {
	if g == nil || len(g.rules) == 0 {
		return false
	}
	last := name[strings.LastIndexByte(name, '/')+1:]
	var parts []string
	for i := len(g.rules) - 1; i >= 0; i-- {
		r := &g.rules[i]
		var matches bool
		switch {
		case r.folderOnly && !folder:
		case r.literal:
			matches = r.name == last
		case r.name != "" && r.name != "**":
			matches, _ = path.Match(r.name, last)
		default:
			if parts == nil {
				parts = strings.Split(name, "/")
			}
			matches = r.match(parts)
		}
		if matches {
			return !r.keep
		}
	}
	return false
}

// match compares a path with a pattern, part by part. Each row of the table is the pattern up to a part;
// each column the path up to one: no input takes longer than their product.
func (r *rule) match(parts []string) bool {
	row := make([]bool, len(parts)+1)
	row[0] = true
	for i, pattern := range r.parts {
		next := make([]bool, len(parts)+1)
		last := i == len(r.parts)-1
		for j := range next {
			switch {
			case pattern == "**" && last:
				next[j] = j > 0 && (row[j-1] || next[j-1]) // everything below, not the folder itself
			case pattern == "**":
				next[j] = row[j] || j > 0 && next[j-1]
			case j > 0 && row[j-1]:
				ok, _ := path.Match(pattern, parts[j-1])
				next[j] = ok
			}
		}
		row = next
	}
	return row[len(parts)]
}

// ReadIgnore reads the ignore file of a tree; nil if it has none that can be read. It is written by whoever
// works in the tree: one that is too large is an error for them to see.
func ReadIgnore(t Tree) (g *Ignore, err error) {
	err = t.Run(func(root int) error {
		f, _, err := openFile(root, IgnoreFile)
		if gone(err) || unreadable(err) || errors.Is(err, errNotRegular) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, MaxIgnore+1))
		if err != nil {
			return err
		}
		g, err = ParseIgnore(string(text))
		return err
	})
	return g, err
}
