package config

import (
	"fmt"
	"strings"
)

// Problem is one value that the server refuses to start with.
type Problem struct {
	Key    string // the setting, or the unknown key
	Origin string // "file PATH:LINE", "env NAME", "flag --NAME"
	Value  string // as given, masked where it may be secret; empty if it says nothing
	Why    string
	Fix    string // what to write instead
}

// String is one line: key, value, origin, why, and what to do.
func (p Problem) String() string { return p.Finding() + "; " + p.Fix }

// Finding is the same line without what to do.
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

// Error carries every problem found, so that one start shows them all.
type Error struct{ Problems []Problem }

// Error lists the problems, one a line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("the configuration cannot be used:")
	for _, p := range e.Problems {
		b.WriteString("\n  ")
		b.WriteString(p.String())
	}
	return b.String()
}

// fault says why one value cannot be used and what to write instead.
type fault struct{ why, fix string }

func faultf(fix, why string, args ...any) *fault {
	return &fault{why: fmt.Sprintf(why, args...), fix: fix}
}

// misfit is the fault as an error for other packages; nil stays nil.
func (f *fault) misfit() error {
	if f == nil {
		return nil
	}
	return &Misfit{Why: f.why, Fix: f.fix}
}
