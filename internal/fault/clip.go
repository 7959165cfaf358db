package fault

import "unicode/utf8"

// Clip shortens a text to at most limit bytes and marks the cut with "…". It never cuts inside a UTF-8 sequence.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:RuneEdge(text, limit)] + "…"
}

// RuneEdge returns the last position at or before n at which a rune of text starts. If there is none within
// utf8.UTFMax bytes, text is not valid UTF-8, and RuneEdge returns n.
func RuneEdge(text string, n int) int {
	for back := 0; back < utf8.UTFMax && n-back >= 0; back++ {
		if utf8.RuneStart(text[n-back]) {
			return n - back
		}
	}
	return n
}
