package tool

import (
	"path"
	"regexp"
	"strings"

	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// maxPattern is the maximum length of a pattern, for paths or for text.
const maxPattern = 1_000

// pattern matches paths: * and ? within a name, ** across folders, [a-z] and [!a-z], {a,b}. A pattern without a slash
// matches names in any folder. It is translated to a regular expression, because Go's regular expressions run in time
// linear in the input for every pattern.
type pattern struct {
	re     *regexp.Regexp
	folder string // all matching paths are below this folder
	names  bool   // the pattern has no slash
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

// matches reports whether a path matches. The path is relative to the folder of the search.
func (p pattern) matches(name string) bool {
	if p.names {
		name = path.Base(name)
	}
	return p.re.MatchString(name)
}

// fixedFolder returns the folders at the start of a pattern that have no special characters.
func fixedFolder(text string) string {
	if special := strings.IndexAny(text, `*?[{\`); special >= 0 {
		text = text[:special]
	}
	folder, _ := path.Split(text)
	return strings.Trim(folder, "/")
}

// translate converts a pattern to a regular expression. ok is false if a [ or { is not closed.
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

// translateClass converts the class [a-z] or [!a-z] at the start of a text. It returns the length of the class in the
// text, or zero if the class is not closed.
func translateClass(text string) (class string, size int) {
	body := text[1:]
	not := strings.HasPrefix(body, "!") || strings.HasPrefix(body, "^")
	if not {
		body = body[1:]
	}
	end := strings.IndexByte(body, ']')
	if end == 0 { // in []x] the first bracket is a member of the class
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

// inside returns the folder to search and the pattern relative to it. The folder is the argument at, unless the pattern
// starts with the workspace or the home directory.
func inside(at, text string) (sandboxPath, string, error) {
	for _, root := range []string{guest.Workspace, guest.Home, "~"} {
		if rest, ok := strings.CutPrefix(text, root+"/"); ok {
			at, text = root, rest
			break
		}
	}
	start, err := parsePath(at)
	if err != nil {
		return start, text, err
	}
	_, err = files.Clean(fixedFolder(text))
	if err == nil && strings.HasPrefix(text, "/") {
		_, err = parsePath(text)
	}
	return start, text, err
}
