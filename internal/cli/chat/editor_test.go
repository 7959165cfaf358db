package chat

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

// keysOf gives one key, or what arrives at once, with each read.
type keysOf []string

func (k *keysOf) Read(p []byte) (int, error) {
	if len(*k) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, (*k)[0])
	*k = (*k)[1:]
	return n, nil
}

func typing(cols, rows int, history []string, keys ...string) (string, string, error) {
	var screen strings.Builder
	e := &editor{out: &screen, size: func() *api.TermSize { return &api.TermSize{Cols: cols, Rows: rows} }, prompt: "> ", history: history}
	k := keysOf(keys)
	text, err := e.read(bufio.NewReader(&k))
	return text, screen.String(), err
}

func TestEditor(t *testing.T) {
	const left, right, up, down = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"
	history := []string{"old", "two\nlines"}
	for want, keys := range map[string][]string{
		"hello":          {"h", "e", "l", "l", "o", "\r"},
		"hällo 漢":        {"hä", "llo 漢", "\r"},
		"abc":            {"ac", left, "b", "\r"},
		"xab":            {"ab", "\x01", "x", "\r"},
		"abx":            {"ab", "\x01", "\x05", "x", "\r"},
		"axb":            {"ab", "\x02", "\x02", "\x06", "x", "\r"},
		"a":              {"ab", "\x7f", "\r"},
		"b":              {"ab", "\x01", "\x04", "\r"},
		"bc":             {"abc", "\x1b[H", "\x1b[3~", "\r"},
		"abcd":           {"abc", "\x1bOH", "\x1b[F", "d", "\r"},
		"one ":           {"one two", "\x17", "\r"},
		"three":          {"one two", "\x15", "\r", "three", "\r"},
		"on":             {"one two", "\x01", right, right, "\x0b", "\r"},
		"fresh":          {"gone", "\x03", "fresh", "\r"},
		"a\nb":           {"a", "\x1b\r", "b", "\r"},
		"a\nc":           {"a", "\n", "c", "\r"},
		"a\nb\nd":        {"a\rb\rd", "\r"},
		"p\nq    r":      {"\x1b[200~p\r\nq\tr\x1b[201~", "\r"},
		"tilde ~ kept":   {"\x1b[200~tilde ~ kept\x1b[201~", "\r"},
		"two\nlines":     {up, "\r"},
		"old":            {up, up, up, up, up, "\r"},
		"typed":          {"typed", up, down, down, "\r"},
		"typ":            {"typ", "\x10", "\x0e", "\x1b[Z", "\x1bx", "\x1b[1;5C", "\x0c", "\x07", "\r"},
		"fi\nXsec":       {"fi\nsec", up, down, down, left, left, "X", "\r"},
		"    tab":        {"\t", "tab", "\r"},
		"one xtwo":       {"one two", "\x1bb", "x", "\r"},
		"\uFFFD invalid": {"\x1b[200~\xff invalid\x1b[201~", "\r"},
	} {
		if got, _, err := typing(40, 10, history, keys...); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", keys, got, err, want)
		}
	}
}

func TestEditorIsLeft(t *testing.T) {
	for _, c := range []struct {
		keys []string
		want error
	}{
		{[]string{"\x04"}, io.EOF}, {[]string{"\x03"}, ui.ErrInterrupted}, {[]string{"x", "\x03", "\x03"}, ui.ErrInterrupted},
		{[]string{"x"}, io.ErrUnexpectedEOF}, {[]string{"\x1b"}, io.ErrUnexpectedEOF}, {[]string{"\x1b[1"}, io.ErrUnexpectedEOF}, {[]string{"\x1b[200~x"}, io.ErrUnexpectedEOF},
	} {
		if got, _, err := typing(40, 10, nil, c.keys...); !errors.Is(err, c.want) || got != "" {
			t.Errorf("%q: %q, %v", c.keys, got, err)
		}
	}
}

func TestEditorDrawsInTheWindow(t *testing.T) {
	e := &editor{prompt: "> ", text: []rune("abcdefghij漢字\nx\x1b"), at: 3}
	rows, y, x := e.layout(10)
	if strings.Join(rows, "|") != "> abcdefgh|  ij漢字|  x\\x1b" || y != 0 || x != 5 {
		t.Errorf("%q, %d, %d", rows, y, x)
	}
	// A text that is higher than the window is shown around the cursor, and never more than fits.
	long := strings.Repeat("line\n", 100)
	_, screen, err := typing(40, 5, nil, "\x1b[200~"+long+"\x1b[201~", "end", "\r")
	if err != nil {
		t.Fatal(err)
	}
	for _, drawn := range strings.Split(screen, "\x1b[J") {
		if n := strings.Count(drawn, "\r\n"); n > 4 {
			t.Errorf("%d rows were drawn at once", n)
		}
	}
	if _, text, _ := typing(40, 5, nil, strings.Repeat("y", 100), "\r"); strings.Count(text, "y") != 200 {
		t.Errorf("screen %q", text)
	}
}
