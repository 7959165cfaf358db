package workspace

import (
	"errors"
	"io"
	"path"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// IgnoreFile is the name of a file in the root of a tree. It lists paths that are left out of versions.
const IgnoreFile = ".berthignore"

// Limits of an ignore file. The file comes from inside the sandbox and may be hostile.
const (
	MaxIgnore = 64 << 10
	maxRules  = 1000
	// maxPattern is the maximum length of a pattern in bytes. Longer patterns are skipped.
	maxPattern = 1000
)

// Ignore selects paths that are left out of versions, with the rules of gitignore: the last match decides, and
// everything below an ignored folder is ignored.
type Ignore struct {
	rules []rule
	index ignoreIndex
}

type rule struct {
	parts      []string // segments of the pattern; "**" stands for any number of folders
	name       string   // the pattern, if it has no slash and is compared with names only; otherwise empty
	keep       bool     // the pattern has "!": its matches are not ignored
	folderOnly bool
	needs      byteSet // bytes that the last segment of a matching path must contain
}

// ParseIgnore parses an ignore file.
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
	g.index.build(g.rules)
	return g, nil
}

func badIgnore(format string, args ...any) error {
	e := fault.Errorf("read "+IgnoreFile, api.CodeInvalidRequest, format, args...)
	e.Hint = "Write one gitignore pattern per line."
	return e
}

// parseRule parses one line. An invalid pattern is skipped, as in git, so that it does not prevent a save.
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
		r.name = r.parts[0]
		r.parts = append([]string{"**"}, r.parts...)
	}
	return r, true
}

// trimSpaces removes trailing spaces. A trailing space after a backslash stays.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// Match reports whether a path is ignored. A nil Ignore matches nothing.
func (g *Ignore) Match(name string, folder bool) bool {
	if g == nil || len(g.rules) == 0 {
		return false
	}
	last := g.index.find(g.rules, name, folder)
	return last >= 0 && !g.rules[last].keep
}

// matches reports whether a path matches the rule. Base is the last segment of the path.
func (r *rule) matches(name, base string) bool {
	if r.name != "" && r.name != "**" {
		ok, _ := path.Match(r.name, base)
		return ok
	}
	return r.match(name)
}

// match compares a path with the pattern, segment by segment. It fills a table of pattern segments and path
// segments, so its time is bounded by the product of their numbers.
func (r *rule) match(name string) bool {
	var space [3 * 64]bool
	columns := strings.Count(name, "/") + 2
	table := space[:]
	if 2*columns > len(table) {
		table = make([]bool, 2*columns)
	}
	row, next := table[:columns], table[columns:2*columns]
	row[0] = true
	for i, pattern := range r.parts {
		last := i == len(r.parts)-1
		rest := name
		for j := range next {
			next[j] = false
			part := ""
			if j > 0 {
				part, rest, _ = strings.Cut(rest, "/")
			}
			switch {
			case pattern == "**" && last:
				next[j] = j > 0 && (row[j-1] || next[j-1]) // matches everything below the folder, but not the folder
			case pattern == "**":
				next[j] = row[j] || j > 0 && next[j-1]
			case j > 0 && row[j-1]:
				next[j], _ = path.Match(pattern, part)
			}
		}
		row, next = next, row
	}
	return row[columns-1]
}

// ReadIgnore reads the ignore file of a tree. It returns nil if the file is missing or cannot be read. A file that
// is too large or has too many rules is an error, so that the user sees the reason.
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
