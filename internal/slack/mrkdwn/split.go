package mrkdwn

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Split divides a converted text into parts of at most limit characters, as Slack counts them. It divides between
// paragraphs if it can, else between lines, else between words. A block of code that is divided is one in both parts;
// links and escapes stay whole if they fit.
func Split(s string, limit int) []string {
	var parts []string
	fence := false // the rest begins within a block of code
	for {
		head := ""
		if fence {
			head = Fence + "\n"
		}
		if size(head)+size(s) <= limit {
			return append(parts, head+s)
		}
		room := limit - size(head) - size("\n"+Fence)
		at := divide(s, room, fence)
		part, rest := s[:at], s[at:]
		open := fence != (strings.Count(part, Fence)%2 == 1)
		if open {
			part = strings.TrimSuffix(part, "\n") + "\n" + Fence
			rest = strings.TrimPrefix(rest, "\n")
		} else {
			part, rest = strings.TrimRight(part, "\n "), strings.TrimLeft(rest, "\n ")
		}
		if strings.TrimSpace(strings.Trim(part, "`\n ")) != "" {
			parts = append(parts, head+part)
		}
		if s, fence = rest, open; strings.TrimSpace(strings.Trim(s, "`\n ")) == "" {
			return parts
		}
	}
}

// size is the number of characters as Slack counts them.
func size(s string) (n int) {
	for _, c := range s {
		n += max(utf16.RuneLen(c), 1)
	}
	return n
}

// divide returns the position at which a text is divided, so that the first part has at most room characters.
func divide(s string, room int, fence bool) int {
	end := prefix(s, room)
	for _, sep := range []string{"\n\n", "\n", " "} {
		if at := strings.LastIndex(s[:end], sep); at > end/3 {
			if sep == " " && !fence {
				at = whole(s, at)
			}
			if at > 0 {
				return at + len(sep)
			}
		}
	}
	if at := whole(s, end); at > 0 {
		return at
	}
	return end
}

// prefix returns the length in bytes of the longest beginning with at most n characters; it has at least one, and
// does not end within a fence.
func prefix(s string, n int) int {
	at := 0
	for at < len(s) {
		c, width := utf8.DecodeRuneInString(s[at:])
		n -= max(utf16.RuneLen(c), 1)
		if n < 0 && at > 0 {
			break
		}
		at += width
	}
	for at > 1 && at < len(s) && s[at] == '`' && s[at-1] == '`' {
		at--
	}
	return at
}

// whole moves a position out of a link or an escape, to its beginning.
func whole(s string, at int) int {
	if open := strings.LastIndexByte(s[:at], '<'); open >= 0 && !strings.Contains(s[open:at], ">") {
		at = open
	}
	if open := strings.LastIndexByte(s[:at], '&'); open >= 0 && at-open < len("&amp;") && !strings.Contains(s[open:at], ";") {
		at = open
	}
	return at
}
