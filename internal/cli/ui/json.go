package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// WriteJSON prints one indented document.
func WriteJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	_, err = io.WriteString(w, EscapeJSON(string(data))+"\n")
	return err
}

// EscapeJSON escapes the characters that are valid in JSON but unsafe at a terminal. The meaning of the document does
// not change.
func EscapeJSON(data string) string {
	if strings.IndexFunc(data, unsafeInJSON) < 0 {
		return data
	}
	var b strings.Builder
	for _, r := range data {
		if !unsafeInJSON(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// unsafeInJSON reports whether EscapeJSON escapes the character. ASCII control characters are not included: JSON has
// them only as line breaks between values.
func unsafeInJSON(r rune) bool { return r >= 0x7f && Unprintable(r) }

// JSONList prints {"items": [...]} while the items arrive, one per line.
type JSONList struct {
	W     io.Writer
	began bool
}

// Add prints one item.
func (l *JSONList) Add(item any) error {
	data, err := json.Marshal(item)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	lead := ",\n  "
	if !l.began {
		lead, l.began = "{\"items\": [\n  ", true
	}
	_, err = io.WriteString(l.W, lead+EscapeJSON(string(data)))
	return err
}

// End closes the document.
func (l *JSONList) End() error {
	tail := "\n]}\n"
	if !l.began {
		tail = "{\"items\": []}\n"
	}
	_, err := io.WriteString(l.W, tail)
	return err
}
