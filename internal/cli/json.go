package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// writeJSON prints one document, indented.
func writeJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	_, err = io.WriteString(w, inert(string(data))+"\n")
	return err
}

// inert escapes what JSON would let through and a terminal might obey. The document means the same.
func inert(data string) string {
	if strings.IndexFunc(data, outlaw) < 0 {
		return data
	}
	var b strings.Builder
	for _, r := range data {
		if !outlaw(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// outlaw is hostile without the line breaks of the indentation; inside strings JSON has none.
func outlaw(r rune) bool { return r >= 0x7f && hostile(r) }

// jsonList prints {"items": [...]} as the items come, one a line.
type jsonList struct {
	w     io.Writer
	began bool
}

func (l *jsonList) add(item any) error {
	data, err := json.Marshal(item)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	lead := ",\n  "
	if !l.began {
		lead, l.began = "{\"items\": [\n  ", true
	}
	_, err = io.WriteString(l.w, lead+inert(string(data)))
	return err
}

func (l *jsonList) end() error {
	tail := "\n]}\n"
	if !l.began {
		tail = "{\"items\": []}\n"
	}
	_, err := io.WriteString(l.w, tail)
	return err
}
