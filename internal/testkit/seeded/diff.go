package seeded

import (
	"errors"
	"fmt"
	"strings"
)

// fileDiff is the part of a patch that changes one file.
type fileDiff struct {
	path           string
	create, remove bool
	hunks          []hunk
}

// hunk is a replacement of the lines old by the lines new. Both include the lines of context.
type hunk struct {
	header   string
	old, new []string
}

// parseDiff parses the output of "git diff". It refuses renames, binary files and a missing newline at
// a file's end, because no seeded bug needs them.
func parseDiff(text string) ([]fileDiff, error) {
	var files []fileDiff
	for _, part := range strings.Split(text, "diff --git ")[1:] {
		file, err := parseFile(strings.Split(strings.TrimRight(part, "\n"), "\n"))
		if err != nil {
			return nil, fmt.Errorf("diff of %s: %w", file.path, err)
		}
		files = append(files, file)
	}
	return files, nil
}

func parseFile(lines []string) (fileDiff, error) {
	a, b, ok := strings.Cut(lines[0], " ")
	f := fileDiff{path: strings.TrimPrefix(b, "b/")}
	if !ok || a != "a/"+f.path || b != "b/"+f.path {
		return f, fmt.Errorf("want a/path b/path of one file, got %q", lines[0])
	}
	for _, line := range lines[1:] {
		switch {
		case strings.HasPrefix(line, "@@ "):
			f.hunks = append(f.hunks, hunk{header: line})
		case len(f.hunks) > 0:
			if err := f.hunks[len(f.hunks)-1].add(line); err != nil {
				return f, err
			}
		case line == "--- /dev/null":
			f.create = true
		case line == "+++ /dev/null":
			f.remove = true
		case strings.HasPrefix(line, "rename "), strings.HasPrefix(line, "copy "), strings.HasPrefix(line, "Binary "):
			return f, fmt.Errorf("cannot apply %q", line)
		}
	}
	if len(f.hunks) == 0 {
		return f, errors.New("no hunks")
	}
	return f, nil
}

func (h *hunk) add(line string) error {
	kind, rest := " ", "" // editors strip the space of an empty line of context
	if line != "" {
		kind, rest = line[:1], line[1:]
	}
	switch kind {
	case " ":
		h.old, h.new = append(h.old, rest), append(h.new, rest)
	case "-":
		h.old = append(h.old, rest)
	case "+":
		h.new = append(h.new, rest)
	default:
		return fmt.Errorf("cannot apply %q", line)
	}
	return nil
}

// apply returns the text with all hunks applied. It ignores line numbers, because files change above
// a hunk. Instead the old lines must occur exactly once, so that a patch is never applied in a wrong place.
func (f fileDiff) apply(text string) (string, error) {
	text = "\n" + text
	for _, h := range f.hunks {
		if f.create {
			return joined(h.new)[1:], nil
		}
		block := joined(h.old)
		switch n := occurrences(text, block); {
		case len(h.old) == 0 || n == 0:
			return "", fmt.Errorf("%s: the lines of %s are not there: make the patch again", f.path, h.header)
		case n > 1:
			return "", fmt.Errorf("%s: the lines of %s are there %d times: use git diff -U10 for more context", f.path, h.header, n)
		}
		text = strings.Replace(text, block, joined(h.new), 1)
	}
	return text[1:], nil
}

// joined joins the lines with a newline at both ends, so that a search finds only whole lines.
func joined(lines []string) string {
	if len(lines) == 0 {
		return "\n"
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// occurrences counts how often the block occurs in the text. Neighboring blocks may share a newline.
func occurrences(text, block string) (n int) {
	for {
		at := strings.Index(text, block)
		if at < 0 {
			return n
		}
		n, text = n+1, text[at+1:]
	}
}
