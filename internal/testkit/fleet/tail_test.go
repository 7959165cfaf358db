package fleet

import (
	"fmt"
	"strings"
	"testing"
)

func TestTailKeepsTheEnd(t *testing.T) {
	var l tail
	for i := range 20_000 {
		fmt.Fprintf(&l, "line %d\n", i)
	}
	if text := l.String(); len(text) > mostLog || len(l.text) > 2*mostLog || !strings.HasSuffix(text, "line 19998\nline 19999") {
		t.Errorf("%d bytes, ending in %q", len(text), text[len(text)-20:])
	}
}
