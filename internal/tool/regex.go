package tool

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"regexp/syntax"

	"github.com/berthdev/berth/internal/fault"
)

// The time of a match in Go is proportional to the size of the expression and the length of the line. A match of an
// expression of maxCost with a line of shortLine takes milliseconds. A match with a longer line can be interrupted.
const (
	maxCost   = 5_000
	shortLine = 8 << 10 // bytes
)

// newRegexp compiles an expression. It refuses an expression whose repetitions would make it too large.
func newRegexp(text string, anyCase bool) (*regexp.Regexp, error) {
	if anyCase {
		text = "(?i)" + text
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, wrong("arguments.pattern", "expected a regular expression as Go's and RE2's are: "+fault.Clip(err.Error(), 300))
	}
	if cost(tree) > maxCost {
		return nil, wrong("arguments.pattern", "expected an expression that repeats less: this one is too large when written out")
	}
	return regexp.Compile(text)
}

// cost returns the size of an expression with its repetitions expanded.
func cost(tree *syntax.Regexp) int {
	n := 1 + len(tree.Rune)
	if tree.Op == syntax.OpCharClass {
		n = 1
	}
	for _, sub := range tree.Sub {
		n += cost(sub)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Max, tree.Min+1, 1)
	}
	return n
}

// search returns the position of the first match in a line. It stops when ctx ends.
func search(ctx context.Context, re *regexp.Regexp, line []byte) (at int, ok bool) {
	var found []int
	if len(line) <= shortLine {
		found = re.FindIndex(line)
	} else {
		found = re.FindReaderIndex(&contextReader{Reader: bytes.NewReader(line), ctx: ctx})
	}
	if found == nil {
		return 0, false
	}
	return found[0], true
}

// contextReader is a reader that ends when its context ends.
type contextReader struct {
	*bytes.Reader
	ctx context.Context
	n   int
}

func (r *contextReader) ReadRune() (c rune, size int, err error) {
	if r.n++; r.n%1024 == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	return r.Reader.ReadRune()
}
