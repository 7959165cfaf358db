package workspace

import (
	"strings"
	"unicode/utf8"
)

// File names are bytes, but JSON strings must be UTF-8. A byte that is not part of valid UTF-8 is stored as the
// character escapeBase + byte. If a name already contains such characters, each of their bytes is escaped, too.
const escapeBase = 0x10FF00

func escapeBytes(s string) string {
	if utf8.ValidString(s) && !hasEscape(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || isEscape(r) {
			for _, c := range []byte(s[i : i+n]) {
				b.WriteRune(escapeBase + rune(c))
			}
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func unescapeBytes(s string) string {
	if !hasEscape(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isEscape(r) {
			b.WriteByte(byte(r - escapeBase))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isEscape(r rune) bool { return r >= escapeBase && r <= escapeBase+0xFF }

func hasEscape(s string) bool { return strings.ContainsFunc(s, isEscape) }
