package tool

import (
	"path"
	"regexp"
	"strings"

	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// maxPattern is how long a pattern may be, for files or for text.
const maxPattern = 1_000

// pattern matches paths: * and ? within a name, ** across folders, [a-z] and [!a-z], {a,b}. Without a slash
// it is for names, in whatever folder. It is a regular expression in the end, and those of Go take time in
// proportion to what they are matched with, whatever is asked.
type pattern struct {
	re     *regexp.Regexp
	folder string // everything that matches is below it
	names  bool
}

const patternForm = "expected a pattern such as **/*.go, src/{a,b}/*.ts or *.md, with every [ and { closed"

func newPattern(text string) (p pattern, ok bool) {
	expr, ok := translate(text)
	if !ok {
		return p, false
	}
	re, err := regexp.Compile(`(?s)\A(?:` + expr + `)\z`)
	if err != nil {
		return p, false
	}
	return pattern{re: re, folder: fixedFolder(text), names: !strings.Contains(text, "/")}, true
}

// matches judges a path relative to where the pattern starts.
func (p pattern) matches(name string) bool {
	if p.names {
		name = path.Base(name)
	}
	return p.re.MatchString(name)
}

// fixedFolder is the part of a pattern that is a plain path.
func fixedFolder(text string) string {
	if special := strings.IndexAny(text, `*?[{\`); special >= 0 {
		text = text[:special]
	}
	folder, _ := path.Split(text)
	return strings.Trim(folder, "/")
}

// translate makes a regular expression of a pattern.
func translate(text string) (expr string, ok bool) {
	var out strings.Builder
	open := 0
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		start := i == 0 || strings.ContainsRune("/{,", rune(text[i-1]))
		switch c := text[i]; {
		case start && strings.HasPrefix(rest, "**/"):
			out.WriteString(`(?:.*/)?`)
			i += 2
		case start && rest == "**":
			out.WriteString(`.*`)
			i++
		case c == '*':
			out.WriteString(`[^/]*`)
		case c == '?':
			out.WriteString(`[^/]`)
		case c == '[':
			class, size := translateClass(rest)
			if size == 0 {
				return "", false
			}
			out.WriteString(class)
			i += size - 1
		case c == '{':
			out.WriteString(`(?:`)
			open++
		case c == ',' && open > 0:
			out.WriteByte('|')
		case c == '}' && open > 0:
			out.WriteByte(')')
			open--
		case c == '\\' && len(rest) > 1:
			out.WriteString(regexp.QuoteMeta(rest[1:2]))
			i++
		default:
			out.WriteString(regexp.QuoteMeta(rest[:1]))
		}
	}
	return out.String(), open == 0
}

// translateClass makes a class of the [a-z] or [!a-z] at the beginning of a text, and says how long that
// is; zero if it is never closed.
func translateClass(text string) (class string, size int) {
	body := text[1:]
	not := strings.HasPrefix(body, "!") || strings.HasPrefix(body, "^")
	if not {
		body = body[1:]
	}
	end := strings.IndexByte(body, ']')
	if end == 0 { // []x] holds a bracket
		end = 1 + strings.IndexByte(body[1:], ']')
	}
	if end <= 0 {
		return "", 0
	}
	size = len(text) - len(body) + end + 1
	body = classEscape.Replace(body[:end])
	if not {
		return `[^/` + body + `]`, size
	}
	return `[` + body + `]`, size
}

var classEscape = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `/`, ``)

// inside finds where a pattern starts: at the path beside it, unless it is absolute itself.
func inside(at, text string) (place, string, error) {
	for _, root := range []string{guest.Workspace, guest.Home, "~"} {
		if rest, ok := strings.CutPrefix(text, root+"/"); ok {
			at, text = root, rest
			break
		}
	}
	start, err := find(at)
	if err != nil {
		return start, text, err
	}
	_, err = files.Clean(fixedFolder(text))
	if err == nil && strings.HasPrefix(text, "/") {
		_, err = find(text)
	}
	return start, text, err
}
