package tool

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"regexp/syntax"
)

// Bounds of a search for text. Go's expressions take time in proportion to the line and to themselves: a
// line of shortLine with one of maxCost is a matter of milliseconds, and longer ones are interrupted.
const (
	maxCost   = 5_000
	shortLine = 8 << 10
)

// newRegexp compiles an expression. One whose repetitions would make it huge is refused before it is.
func newRegexp(text string, anyCase bool) (*regexp.Regexp, error) {
	if anyCase {
		text = "(?i)" + text
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, wrong("arguments.pattern", "expected a regular expression as Go's and RE2's are: "+clip(err.Error(), 300))
	}
	if cost(tree) > maxCost {
		return nil, wrong("arguments.pattern", "expected an expression that repeats less: this one is too large when written out")
	}
	return regexp.Compile(text)
}

// cost is how large an expression is with its repetitions written out.
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

// search finds where the first match in a line begins. It gives up when ctx is over.
func search(ctx context.Context, re *regexp.Regexp, line []byte) (at int, ok bool) {
	var found []int
	if len(line) <= shortLine {
		found = re.FindIndex(line)
	} else {
		found = re.FindReaderIndex(&impatient{Reader: bytes.NewReader(line), ctx: ctx})
	}
	if found == nil {
		return 0, false
	}
	return found[0], true
}

// impatient is a reader that ends when its context does.
type impatient struct {
	*bytes.Reader
	ctx context.Context
	n   int
}

func (r *impatient) ReadRune() (c rune, size int, err error) {
	if r.n++; r.n%1024 == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	return r.Reader.ReadRune()
}
