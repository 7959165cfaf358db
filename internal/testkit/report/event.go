package report

import (
	"bufio"
	"bytes"
	"cmp"
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
	Key, Value string // set if Action is "attr"
}

// Events calls each for every event in r, and other for every line that is not an event: the go command
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

// Module is the module path of Berth, with which every package path begins.
const Module = "github.com/berthdev/berth"

// Short removes the module path and "internal/" from a package path: ".../internal/store" becomes "store". The
// package at the module's root becomes "berth".
func Short(pkg string) string {
	pkg = strings.TrimPrefix(strings.TrimPrefix(pkg, Module), "/")
	return cmp.Or(strings.TrimPrefix(pkg, "internal/"), "berth")
}
