package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// clean makes text from elsewhere harmless to a terminal: whatever is not a visible character or a
// plain space is shown as its escape, so that it can neither move the cursor nor set the clipboard
// nor reorder what stands around it.
func clean(s string) string {
	if strings.IndexFunc(s, hostile) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hostile(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// hostile is every control and format character, line and paragraph separators included.
func hostile(r rune) bool { return !unicode.IsGraphic(r) }

// cleanLines is clean for text that may have several lines.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = clean(line)
	}
	return strings.Join(lines, "\n")
}

// when shows a time as a person reads it at a terminal, and exactly everywhere else.
func (f *frame) when(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case !f.out.tty:
		return t.UTC().Format(time.RFC3339)
	}
	return ago(f.now().Sub(t))
}

// whenever is when for a time that may be missing.
func (f *frame) whenever(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return f.when(*t)
}

func ago(d time.Duration) string {
	if d < 0 {
		return "in " + span(-d)
	}
	if d < time.Second {
		return "just now"
	}
	return span(d) + " ago"
}

// span is a duration in its largest unit, which is as exact as a glance is.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// brief is how long something took, to the last digit that matters.
func brief(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// orDash stands for a value that is not there.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plural is a number with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// size is a number of bytes as a person reads it.
func size(n int64) string {
	const step = 1024
	if n < step {
		return plural(int(n), "byte", "bytes")
	}
	value, unit := float64(n)/step, 0
	for value >= step-0.05 && unit < len(units)-1 {
		value, unit = value/step, unit+1
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

var units = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
