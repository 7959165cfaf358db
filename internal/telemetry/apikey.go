package telemetry

import "strings"

// API keys are recognised by their form: the redactor does not know keys that were created by another server or before
// the start.
const (
	keyPrefix = "berth_"
	keyChars  = len(keyPrefix) + 49 // letters and digits
)

// matchKey returns the length of the API key at the start of text. open reports whether text could be the beginning of
// a key.
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

// inKey reports whether b is allowed at index i of a key.
func inKey(i int, b byte) bool {
	if i < len(keyPrefix) {
		return b == keyPrefix[i]
	}
	return strings.IndexByte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", b) >= 0
}
