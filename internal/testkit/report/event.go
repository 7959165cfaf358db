package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// Event is one line of "go test -json"; see "go doc test2json" for the meaning of its fields.
type Event struct {
	Action     string
	Package    string
	Test       string
	Elapsed    float64
	Output     string
	Key, Value string // of the action attr
}

// Events calls each for every event in r, and other for every line that is not one: the go command
// writes some errors as plain text.
func Events(r io.Reader, each func(Event), other func(line string)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 {
			var e Event
			if json.Unmarshal(text, &e) == nil && e.Action != "" {
				each(e)
			} else {
				other(string(text))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Module is the path that every package of Berth begins with.
const Module = "github.com/berthdev/berth"

// Short drops what all packages of the module have in common: ".../internal/store" becomes "store".
func Short(pkg string) string {
	pkg = strings.TrimPrefix(strings.TrimPrefix(pkg, Module), "/")
	return strings.TrimPrefix(pkg, "internal/")
}
