// Package hook runs what a template wants done at the turning points of a sandbox's life.
//
// A hook has a phase: when an instance starts ([OnColdStart]), when a message was stored ([OnMessage]), when
// a turn is over ([OnStreamFinish]), and before an instance ends for good ([OnTerminate]). It is a function
// in Go, a command in the sandbox, a signed call of a webhook, or one of those that Berth has under a name
// ([Spec]). Each gets [Data].
//
// [Runner] runs them, one after the other in the order of the template, each within its time and with its
// panics caught. The phase alone decides what an error means: that of a cold start fails the start, all
// others are logged and hold up nothing. Commands run once for what they are about, whatever dies meanwhile;
// webhooks come at least once, under an id that never changes.
package hook

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Phase is when a hook runs.
type Phase string

// The phases.
const (
	OnColdStart    Phase = "cold_start"    // the instance is up and its workspace is there; on each start
	OnMessage      Phase = "message"       // a message of either role was stored
	OnStreamFinish Phase = "stream_finish" // a turn is over, however it ended
	OnVersionSaved Phase = "version.saved" // the workspace of a turn was saved, also long after the turn
	OnTerminate    Phase = "terminate"     // the instance is about to end for good
)

// Phases are all of them, in the order of a sandbox's life.
var Phases = []Phase{OnColdStart, OnMessage, OnStreamFinish, OnVersionSaved, OnTerminate}

// critical reports whether an error of a hook fails what it is a hook of.
func (p Phase) critical() bool { return p == OnColdStart }

// The hooks that Berth has under a name.
const (
	Push  = "push"  // saves the workspace as a version; at the end of a turn
	Log   = "log"   // says in the log that an instance ends
	Clone = "clone" // brings a repository into an empty workspace; at a cold start
)

// named are the phases of those.
var named = map[string]Phase{Push: OnStreamFinish, Log: OnTerminate, Clone: OnColdStart}

// Defaults are the hooks of a template that does not say otherwise. Bringing the workspace back at a cold
// start and storing messages are no hooks: nothing works without them.
func Defaults() []Spec {
	return []Spec{{Phase: OnStreamFinish, Builtin: Push}, {Phase: OnTerminate, Builtin: Log}}
}

// Func is a hook in Go. It may be called again for what it was called for before: after a crash.
type Func func(ctx context.Context, d *Data) error

// Spec is a hook as a template has it. Exactly one of Run, Command, URL and Builtin is given.
type Spec struct {
	Name    string // empty: made of what it does
	Phase   Phase
	Timeout time.Duration // zero: the phase's

	Run     Func
	Command []string // in the sandbox, as the template's user
	URL     string   // of a webhook
	Builtin string   // Push, Log or Clone

	Secret       string // that the webhook's calls are signed with: whsec_…
	AllowPrivate bool   // the webhook may be at an address that is not public, and without TLS
}

// Times that hooks have if they do not say.
const (
	coldStartTimeout = 10 * time.Minute
	defaultTimeout   = time.Minute
	saveTimeout      = 30 * time.Minute // of Push, which is as long as the workspace is large
	// MostTimeout is the longest that a hook can ask for.
	MostTimeout = time.Hour
)

func (s Spec) timeout() time.Duration {
	switch {
	case s.Timeout > 0:
		return s.Timeout
	case s.Builtin == Push:
		return saveTimeout
	case s.Phase == OnColdStart:
		return coldStartTimeout
	}
	return defaultTimeout
}

// Kind is what the hook does, in one word.
func (s Spec) Kind() string {
	switch {
	case s.Builtin != "":
		return "builtin"
	case s.URL != "":
		return "webhook"
	case len(s.Command) > 0:
		return "command"
	}
	return "function"
}

// Title is the hook's name, or else what it does.
func (s Spec) Title() string { return cmp.Or(s.Name, s.Builtin, s.Kind()) }

// Fault is what is wrong with one key of a hook.
type Fault struct{ Key, Value, Why, Fix string }

func (f *Fault) Error() string { return fmt.Sprintf("%s %s; %s", f.Key, f.Why, f.Fix) }

// Check says what is wrong with the hook, or nil.
func (s Spec) Check() *Fault {
	if !slices.Contains(Phases, s.Phase) {
		return &Fault{"phase", string(s.Phase), "is no phase", "write one of: " + joined(Phases)}
	}
	kinds := 0
	for _, given := range []bool{s.Run != nil, len(s.Command) > 0, s.URL != "", s.Builtin != ""} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return &Fault{"", "", "does nothing, or more than one thing", "write one of command, url and builtin"}
	case len(s.Command) > 0 && s.Command[0] == "":
		return &Fault{"command", "", "has no program", `write a list, such as ["prog", "arg"], or text for the shell`}
	case s.Builtin != "" && named[s.Builtin] != s.Phase:
		return badBuiltin(s)
	case s.Timeout < 0 || s.Timeout > MostTimeout:
		return &Fault{"timeout", s.Timeout.String(), "is longer than an hour", "write less"}
	case len(s.Name) > 63 || strings.ContainsFunc(s.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return &Fault{"name", s.Name, "is no name", "write up to 63 characters"}
	}
	return s.checkWebhook()
}

func badBuiltin(s Spec) *Fault {
	if phase, ok := named[s.Builtin]; ok {
		return &Fault{"builtin", s.Builtin, "is a hook of another phase", "write phase = \"" + string(phase) + "\""}
	}
	return &Fault{"builtin", s.Builtin, "is no hook that Berth has", "write one of: clone, log, push"}
}

func joined(phases []Phase) string {
	words := make([]string, len(phases))
	for i, p := range phases {
		words[i] = string(p)
	}
	return strings.Join(words, ", ")
}
