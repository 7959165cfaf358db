package template

import (
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/sandbox"
)

// Size is a number of bytes. In TOML it is a number or text such as "512MiB".
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

// String returns the size in the form of a configuration file, or the empty string for zero.
func (s Size) String() string {
	if s == 0 {
		return ""
	}
	return config.FormatSize(int64(s))
}

// The ways to enforce a disk limit.
const (
	DiskAuto = "auto" // like DiskLoop if the machine supports it, otherwise like DiskSoft
	DiskSoft = "soft" // the server watches the used space and ends processes beyond the limit
	DiskLoop = "loop" // the sandbox has a file system of this size
)

// Disk is a disk limit and the way to enforce it: "10GiB", "loop", "10GiB loop".
type Disk struct {
	Bytes int64
	Kind  string // DiskAuto, DiskSoft or DiskLoop; empty: DiskAuto
}

// UnmarshalTOML reads a size, a kind or both. A missing part stays unchanged.
func (d *Disk) UnmarshalTOML(v any) error {
	text, ok := number(v)
	if !ok || strings.TrimSpace(text) == "" {
		return &config.Misfit{Why: "is not a disk limit", Fix: `write a size, auto, soft or loop, or both: "10GiB loop"`}
	}
	for word := range strings.FieldsSeq(text) {
		if word == DiskAuto || word == DiskSoft || word == DiskLoop {
			d.Kind = word
			continue
		}
		n, err := config.ParseSize(word)
		if err != nil {
			return &config.Misfit{Why: "has a word that is neither a size nor auto, soft or loop", Fix: `write "10GiB", "loop" or "10GiB loop"`}
		}
		d.Bytes = n
	}
	return nil
}

// Timer is a duration or off. If it is not set, the default of the owner's kind applies.
type Timer struct {
	Set   bool
	After time.Duration // zero: off
}

// After returns a timer that is set to d; zero turns it off.
func After(d time.Duration) Timer { return Timer{Set: true, After: d} }

// minTimer is the minimum of a timer. A shorter timer could fire before Berth notices that work began.
const minTimer = 10 * time.Second

// UnmarshalTOML reads a duration or "off".
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
	case d < minTimer:
		err = &config.Misfit{Why: "is shorter than " + config.FormatDuration(minTimer), Fix: `write a longer duration, such as "15m", or "off"`}
	}
	*t = After(d)
	return err
}

// String returns the timer in the form of a configuration file, or the empty string if it is not set.
func (t Timer) String() string {
	switch {
	case !t.Set:
		return ""
	case t.After == 0:
		return "off"
	}
	return config.FormatDuration(t.After)
}

// or returns the timer's duration, or d if the timer is not set.
func (t Timer) or(d time.Duration) time.Duration {
	if t.Set {
		return t.After
	}
	return d
}

// Timers are the timers of an idle sandbox, and its maximum age.
type Timers struct {
	AutoStop    Timer `toml:"auto_stop"`
	AutoArchive Timer `toml:"auto_archive"`
	AutoDelete  Timer `toml:"auto_delete"`
	MaxAge      Timer `toml:"max_age"`
}

// Over returns d with the timers that are set in t.
func (t Timers) Over(d sandbox.Timers) sandbox.Timers {
	return sandbox.Timers{
		Stop: t.AutoStop.or(d.Stop), Archive: t.AutoArchive.or(d.Archive),
		Delete: t.AutoDelete.or(d.Delete), MaxAge: t.MaxAge.or(d.MaxAge),
	}
}

// Egress lists the addresses that a sandbox may connect to: rules of the form host:port, or "all". If it is empty, the
// sandbox may connect to none.
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

// UnmarshalTOML reads a list of arguments, or a text that the shell runs.
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

// number returns a text or a whole number as text. ok is false for other types.
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
