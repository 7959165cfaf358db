package template

import (
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/sandbox"
)

// Size is a number of bytes, written as such or as text: "512MiB".
type Size int64

// UnmarshalTOML reads a size.
func (s *Size) UnmarshalTOML(v any) error {
	text, ok := number(v)
	if !ok {
		return &config.Misfit{Why: "has a type that does not fit", Fix: `write a size, such as "512MiB"`}
	}
	n, err := config.ParseSize(text)
	*s = Size(n)
	return err
}

// String is the size as a file would have it; empty for none.
func (s Size) String() string {
	if s == 0 {
		return ""
	}
	return config.FormatSize(int64(s))
}

// The ways to hold a disk limit.
const (
	DiskSoft = "soft" // watched from outside
	DiskLoop = "loop" // a file system's own size
)

// Disk is how much a sandbox may store and how that is held: "10GiB", "loop", "10GiB loop".
type Disk struct {
	Bytes int64
	Kind  string // DiskSoft or DiskLoop; empty: soft
}

// UnmarshalTOML reads a size, a kind or both. What is not there stays as it is.
func (d *Disk) UnmarshalTOML(v any) error {
	text, ok := number(v)
	if !ok || strings.TrimSpace(text) == "" {
		return &config.Misfit{Why: "is not a disk limit", Fix: `write a size, soft or loop, or both: "10GiB loop"`}
	}
	for word := range strings.FieldsSeq(text) {
		if word == DiskSoft || word == DiskLoop {
			d.Kind = word
			continue
		}
		n, err := config.ParseSize(word)
		if err != nil {
			return &config.Misfit{Why: "has a word that is neither a size nor soft nor loop", Fix: `write "10GiB", "loop" or "10GiB loop"`}
		}
		d.Bytes = n
	}
	return nil
}

// Timer is a duration, off, or left to the kind of owner.
type Timer struct {
	Set   bool
	After time.Duration // zero: off
}

// After is a timer that is set; zero turns it off.
func After(d time.Duration) Timer { return Timer{Set: true, After: d} }

// shortest is the shortest timer: work is noticed a few seconds after it began.
const shortest = 10 * time.Second

// UnmarshalTOML reads a duration or off.
func (t *Timer) UnmarshalTOML(v any) error {
	text, ok := number(v)
	if !ok {
		return &config.Misfit{Why: "has a type that does not fit", Fix: `write a duration, such as "15m", or "off"`}
	}
	if text == "off" {
		*t = After(0)
		return nil
	}
	d, err := config.ParseDuration(text)
	switch {
	case err != nil:
	case d == 0:
		err = &config.Misfit{Why: "is zero", Fix: `write a duration, such as "15m", or "off"`}
	case d < shortest:
		err = &config.Misfit{Why: "is shorter than " + config.FormatDuration(shortest), Fix: `write a longer duration, such as "15m", or "off"`}
	}
	*t = After(d)
	return err
}

// String is the timer as a file would have it; empty if it is left to the kind of owner.
func (t Timer) String() string {
	switch {
	case !t.Set:
		return ""
	case t.After == 0:
		return "off"
	}
	return config.FormatDuration(t.After)
}

// or is the timer's duration, or the given one if it is not set.
func (t Timer) or(d time.Duration) time.Duration {
	if t.Set {
		return t.After
	}
	return d
}

// Timers act on a sandbox that nobody uses.
type Timers struct {
	AutoStop    Timer `toml:"auto_stop"`
	AutoArchive Timer `toml:"auto_archive"`
	AutoDelete  Timer `toml:"auto_delete"`
	MaxAge      Timer `toml:"max_age"`
}

// Over replaces those of the given timers that are set here.
func (t Timers) Over(d sandbox.Timers) sandbox.Timers {
	return sandbox.Timers{
		Stop: t.AutoStop.or(d.Stop), Archive: t.AutoArchive.or(d.Archive),
		Delete: t.AutoDelete.or(d.Delete), MaxAge: t.MaxAge.or(d.MaxAge),
	}
}

// Egress is what a sandbox may connect to: rules of the form host:port, or all. Empty: nothing.
type Egress []string

// UnmarshalTOML reads a list of rules, or "all".
func (e *Egress) UnmarshalTOML(v any) error {
	if v == "all" {
		*e = Egress{"all"}
		return nil
	}
	rules, ok := texts(v)
	if !ok {
		return &config.Misfit{Why: "is no list of rules", Fix: `write egress = ["host:port", …], or egress = "all"`}
	}
	*e = rules
	return nil
}

// Command is a program and its arguments.
type Command []string

// UnmarshalTOML reads a list of arguments, or a text for the shell.
func (c *Command) UnmarshalTOML(v any) error {
	if text, ok := v.(string); ok {
		*c = Command{"/bin/sh", "-c", text}
		return nil
	}
	args, ok := texts(v)
	if !ok {
		return &config.Misfit{Why: "is no command", Fix: `write a list, such as ["prog", "arg"], or text for the shell`}
	}
	*c = args
	return nil
}

// number is a text, or a whole number as text.
func number(v any) (string, bool) {
	switch x := v.(type) {
	case string:
		return strings.TrimSpace(x), true
	case int64:
		return strconv.FormatInt(x, 10), true
	}
	return "", false
}

func texts(v any) ([]string, bool) {
	items, ok := v.([]any)
	if !ok {
		return nil, false
	}
	list := make([]string, len(items))
	for i, item := range items {
		if list[i], ok = item.(string); !ok {
			return nil, false
		}
	}
	return list, true
}
