package config

import (
	"fmt"
	"strings"
)

// Problem is one invalid value. The server does not start with it.
type Problem struct {
	Key    string // the setting, or the unknown key
	Origin string // "file PATH:LINE", "env NAME", "flag --NAME"
	Value  string // as given, masked if it may be secret; empty if there is none to show
	Why    string
	Fix    string // what to write instead, or what to do
}

// String returns one line with the key, value, origin, reason and fix.
func (p Problem) String() string { return p.Finding() + "; " + p.Fix }

// Finding returns the same line without the fix.
func (p Problem) Finding() string {
	value := ""
	if p.Value != "" {
		value = fmt.Sprintf(" = %q", p.Value)
	}
	origin := ""
	if p.Origin != "" {
		origin = " (" + p.Origin + ")"
	}
	return fmt.Sprintf("%s%s%s %s", p.Key, value, origin, p.Why)
}

// Error holds all problems that were found, so that one start shows them all.
type Error struct{ Problems []Problem }

// Error lists the problems, one per line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("the configuration cannot be used:")
	for _, p := range e.Problems {
		b.WriteString("\n  ")
		b.WriteString(p.String())
	}
	return b.String()
}

// badValue is the reason why a value is invalid, and a valid form.
type badValue struct{ why, fix string }

func badValuef(fix, why string, args ...any) *badValue {
	return &badValue{why: fmt.Sprintf(why, args...), fix: fix}
}

// misfit converts f to an error for other packages. It returns nil if f is nil.
func (f *badValue) misfit() error {
	if f == nil {
		return nil
	}
	return &Misfit{Why: f.why, Fix: f.fix}
}
