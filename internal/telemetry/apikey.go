package telemetry

import "strings"

// API keys are recognised by their form: those that another replica made, or that
// were recorded before this start, are known to nobody here.
const (
	keyPrefix = "berth_"
	keyChars  = len(keyPrefix) + 49 // letters and digits
)

// matchKey returns the length of the API key at the start of text, and whether
// there could be one if text went on.
func matchKey(text []byte) (length int, open bool) {
	for i := range min(len(text), keyChars) {
		if !inKey(i, text[i]) {
			return 0, false
		}
	}
	if len(text) < keyChars {
		return 0, true
	}
	return keyChars, false
}

// inKey reports whether a key may have the byte at place i.
func inKey(i int, b byte) bool {
	if i < len(keyPrefix) {
		return b == keyPrefix[i]
	}
	return strings.IndexByte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", b) >= 0
}
