package ui

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Clean makes text from other sources safe for a terminal. It escapes everything but visible characters and the plain
// space, so that the text cannot move the cursor, set the clipboard or reorder other text.
func Clean(s string) string {
	if strings.IndexFunc(s, Unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case Unprintable(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// Unprintable reports whether r is a control or format character, or a line or paragraph separator.
func Unprintable(r rune) bool { return !unicode.IsGraphic(r) }

// CleanLines is Clean for text with several lines.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Clean(line)
	}
	return strings.Join(lines, "\n")
}

// Time formats a time: relative at a terminal, such as "3 min ago", and as RFC 3339 elsewhere.
func (u *UI) Time(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case !u.Out.TTY:
		return t.UTC().Format(time.RFC3339)
	}
	return ago(u.Now().Sub(t))
}

// TimeOrDash is Time for a time that may be nil.
func (u *UI) TimeOrDash(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return u.Time(*t)
}

func ago(d time.Duration) string {
	if d < 0 {
		return "in " + Span(-d)
	}
	if d < time.Second {
		return "just now"
	}
	return Span(d) + " ago"
}

// Span formats a duration in its largest unit, rounded down.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/day)
}

// Brief formats the duration of an operation in milliseconds or in tenths of a second.
func Brief(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// OrDash returns s, or "-" if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Plural returns a number with its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Size formats a number of bytes with a unit.
func Size(n int64) string {
	const step = 1024
	if n < step {
		return Plural(int(n), "byte", "bytes")
	}
	value, unit := float64(n)/step, 0
	for value >= step-0.05 && unit < len(units)-1 {
		value, unit = value/step, unit+1
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

var units = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// ShellQuote returns the command as it is typed in a shell.
func ShellQuote(command []string) string {
	quoted := make([]string, len(command))
	for i, word := range command {
		quoted[i] = word
		if word == "" || strings.ContainsFunc(word, needsQuotes) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func needsQuotes(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^", r)
}

// Thousands formats a number with commas between groups of three digits.
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Dollars formats a cost: with two decimals from one dollar on, otherwise with four.
func Dollars(usd float64) string {
	if usd >= 1 {
		return fmt.Sprintf("$%.2f", usd)
	}
	return fmt.Sprintf("$%.4f", usd)
}

// OneLine returns the first line of a text, with an ellipsis if there are more.
func OneLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if rest != "" {
		line += " …"
	}
	return CleanText(line)
}

// CleanText is CleanLines with each tab replaced by four spaces.
func CleanText(text string) string {
	return CleanLines(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\t", "    "))
}

// First returns the first value that is not empty, or the empty string.
func First(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// Joined returns the KEY=VALUE pairs of a map in the order of its keys.
func Joined(m map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		texts = append(texts, key+"="+m[key])
	}
	return strings.Join(texts, ", ")
}
