package screen_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"github.com/berthdev/berth/internal/cli/screen"
)

// shown is what a terminal gets of text that comes in one piece.
func shown(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := screen.NewWriter(&out)
	if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("Write: %d, %v", n, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// hostile is what a sandbox may try, and what a person sees of it.
var hostile = map[string][2]string{
	"clipboard is set":           {"\x1b]52;c;cm0gLXJmIH4=\x07", `\x1b]52;c;cm0gLXJmIH4=\a`},
	"clipboard is read":          {"\x1b]52;c;?\x1b\\", `\x1b]52;c;?\x1b\`},
	"link hides its target":      {"\x1b]8;;javascript:alert(1)\x1b\\click\x1b]8;;\x1b\\", `\x1b]8;;javascript:alert(1)\x1b\click\x1b]8;;\x1b\`},
	"title":                      {"\x1b]0;root@prod\x07", `\x1b]0;root@prod\a`},
	"title is typed back":        {"\x1b[21t", `\x1b[21t`},
	"device attributes":          {"\x1b[c\x1b[>c\x1b[0c", `\x1b[c\x1b[>c\x1b[0c`},
	"cursor report":              {"\x1b[6n", `\x1b[6n`},
	"version":                    {"\x1b[>q", `\x1b[>q`},
	"mode is asked":              {"\x1b[?25$p", `\x1b[?25$p`},
	"keyboard mode":              {"\x1b[>4;2m", `\x1b[>4;2m`},
	"colour is asked":            {"\x1b[?4m", `\x1b[?4m`},
	"settings are asked":         {"\x1bP$qm\x1b\\", `\x1bP$qm\x1b\`},
	"answer back":                {"\x05", `\x05`},
	"private message":            {"\x1b_G\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\", `\x1b_G\x1b\\x1b^x\x1b\\x1bXx\x1b\`},
	"reset":                      {"\x1bc", `\x1bc`},
	"screen is cleared":          {"\x1b[2J\x1b[H", `\x1b[2J\x1b[H`},
	"line above is rewritten":    {"\x1b[1A\x1b[2K", `\x1b[1A` + "\x1b[2K"},
	"alternate screen":           {"\x1b[?1049h", `\x1b[?1049h`},
	"mouse":                      {"\x1b[?1003h", `\x1b[?1003h`},
	"other letters":              {"\x1b(0\x0e", `\x1b(0\x0e`},
	"eight bit sequence":         {"\x9b2J", `\x9b2J`},
	"eight bit sequence, UTF-8":  {"\u009b2J", `\u009b2J`},
	"backspaces":                 {"rm -rf /\b\b", `rm -rf /\b\b`},
	"text is turned around":      {"\u202egpj.exe", `\u202egpj.exe`},
	"text is isolated":           {"\u2066x\u2069", `\u2066x\u2069`},
	"delete":                     {"\x7f", `\x7f`},
	"NUL":                        {"a\x00b", `a\x00b`},
	"not UTF-8":                  {"\xff\xc3(", `\xff\xc3(`},
	"cut letter":                 {"\xe2\x82", `\xe2\x82`},
	"cut sequence":               {"\x1b[3", `\x1b[3`},
	"lone escape":                {"\x1b", `\x1b`},
	"endless parameters":         {"\x1b[" + strings.Repeat("1;", 100) + "m", `\x1b[` + strings.Repeat("1;", 100) + "m"},
	"escape within a sequence":   {"\x1b[3\x1b]52;c;?\x07", `\x1b[3\x1b]52;c;?\a`},
	"newline within a sequence":  {"\x1b[3\n1m", `\x1b[3` + "\n1m"},
	"colour that is not ended":   {"\x1b[8mhidden", "\x1b[8mhidden\x1b[0m"},
	"colour that is ended":       {"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"},
	"colour that is ended short": {"\x1b[38:2::1:2:3mx\x1b[m", "\x1b[38:2::1:2:3mx\x1b[m"},
	"ended and begun anew":       {"\x1b[0;32mx", "\x1b[0;32mx\x1b[0m"},
	"plain":                      {"héllo, 世界 👩‍🚀\tx\r\n", "héllo, 世界 👩‍🚀\tx\r\n"},
	"progress":                   {"50%\r\x1b[K100%\n", "50%\r\x1b[K100%\n"},
}

func TestOutputIsHarmless(t *testing.T) {
	for name, c := range hostile {
		if got := shown(t, c[0]); got != c[1] {
			t.Errorf("%s: %q is shown as %q, want %q", name, c[0], got, c[1])
		}
	}
}

// TestPiecesMakeNoDifference: where the network cuts the output is no way around the rules.
func TestPiecesMakeNoDifference(t *testing.T) {
	for name, c := range hostile {
		var out bytes.Buffer
		w := screen.NewWriter(&out)
		for _, b := range []byte(c[0]) {
			if _, err := w.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || out.String() != c[1] {
			t.Errorf("%s: %v, byte by byte %q, want %q", name, err, out.String(), c[1])
		}
	}
}

func TestTerminalThatIsGoneIsAnError(t *testing.T) {
	gone := errors.New("gone")
	w := screen.NewWriter(failing{gone})
	if _, err := w.Write([]byte("x")); !errors.Is(err, gone) {
		t.Errorf("Write: %v", err)
	}
	w = screen.NewWriter(iotest.TruncateWriter(failing{nil}, 0))
	if _, err := w.Write([]byte("\x1b[1")); err != nil {
		t.Fatal(err)
	}
	if err := screen.NewWriter(failing{gone}).Close(); err != nil {
		t.Errorf("closing when nothing is left: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write(p []byte) (int, error) { return len(p), f.err }

// FuzzOnlyColoursReachTheTerminal: whatever comes in, the only escapes that go out are changes of colour
// and of the line's rest.
func FuzzOnlyColoursReachTheTerminal(f *testing.F) {
	for _, c := range hostile {
		f.Add([]byte(c[0]), 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		var out bytes.Buffer
		w := screen.NewWriter(&out)
		cut = max(0, min(cut, len(data)))
		_, _ = w.Write(data[:cut])
		_, _ = w.Write(data[cut:])
		_ = w.Close()
		left := out.String()
		for {
			before, after, found := strings.Cut(left, "\x1b")
			if i := strings.IndexFunc(before, bad); i >= 0 {
				t.Fatalf("%q lets %q through", data, before[i:])
			}
			if !found {
				return
			}
			tail := strings.TrimLeft(strings.TrimPrefix(after, "["), "0123456789;:")
			if !strings.HasPrefix(after, "[") || tail == "" || tail[0] != 'm' && tail[0] != 'K' {
				t.Fatalf("%q lets an escape through before %q", data, after)
			}
			left = tail
		}
	})
}

func bad(r rune) bool {
	return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r)
}
