// Package hook runs the hooks of templates at points of a sandbox's life.
//
// Each hook has a phase: it runs when an instance starts ([OnColdStart]), after a message was stored ([OnMessage]),
// after a turn ([OnStreamFinish]), after the workspace of a turn was saved ([OnVersionSaved]), or before an instance
// is destroyed ([OnTerminate]). A hook is a Go function, a command in the sandbox, a signed webhook call, or a
// built-in hook of Berth; [Spec] describes it. Each hook gets [Data].
//
// [Runner] runs the hooks of a phase in the order of the template, each with a timeout. It recovers panics. An
// error of a cold start hook fails the start; errors of other hooks are logged. A command runs once per subject (a
// message, a turn or a sandbox), even if a server dies while it runs. A webhook is called at least once, with an id
// that never changes.
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
	OnColdStart    Phase = "cold_start"    // on each start, when the instance is up and its workspace is restored
	OnMessage      Phase = "message"       // after a message of either role was stored
	OnStreamFinish Phase = "stream_finish" // after a turn, with success or not
	OnVersionSaved Phase = "version.saved" // after the workspace of a turn was saved, possibly long after the turn
	OnTerminate    Phase = "terminate"     // before the instance is destroyed
)

// Phases lists all phases in the order of a sandbox's life.
var Phases = []Phase{OnColdStart, OnMessage, OnStreamFinish, OnVersionSaved, OnTerminate}

// critical reports whether an error of a hook fails the operation that runs it.
func (p Phase) critical() bool { return p == OnColdStart }

// The built-in hooks.
const (
	Pull  = "pull"  // restores the workspace; at a cold start
	Store = "store" // stores and counts a message
	Push  = "push"  // saves the workspace as a version; at the end of a turn
	Tally = "tally" // adds up the tokens of a turn in the sandbox's metadata
	Log   = "log"   // logs the end of an instance
	Clone = "clone" // clones a repository into an empty workspace; at a cold start
)

// builtinPhases holds the phase of each built-in hook.
var builtinPhases = map[string]Phase{
	Pull: OnColdStart, Store: OnMessage, Push: OnStreamFinish, Tally: OnStreamFinish, Log: OnTerminate, Clone: OnColdStart,
}

// Defaults returns the hooks that each template has unless it drops them or lists them itself.
func Defaults() []Spec {
	return []Spec{
		{Phase: OnColdStart, Builtin: Pull}, {Phase: OnMessage, Builtin: Store},
		{Phase: OnStreamFinish, Builtin: Tally}, {Phase: OnStreamFinish, Builtin: Push}, {Phase: OnTerminate, Builtin: Log},
	}
}

// Optional reports whether a default hook is among those that a template without default hooks does not have. The
// others have to be dropped by name, because files, messages and totals depend on them.
func Optional(builtin string) bool { return builtin == Push || builtin == Log }

// outside reports whether another package does the hook's work at its own time: the engine pulls, and conversations
// store messages, save workspaces and add up tokens. For Pull and Push the place in the list decides what comes before.
func (s Spec) outside() bool {
	switch s.Builtin {
	case Pull, Store, Push, Tally:
		return true
	}
	return false
}

// Func is a hook in Go. After a crash it may be called again for the same event.
type Func func(ctx context.Context, d *Data) error

// Spec describes a hook of a template. Exactly one of Run, Command, URL and Builtin is set.
type Spec struct {
	Name    string // empty: Title uses Builtin or the kind
	Phase   Phase
	Timeout time.Duration // zero: the default of the phase or of Push

	Run     Func
	Command []string // runs in the sandbox as the template's user
	URL     string   // webhook to call
	Builtin string   // built-in hook: Pull, Store, Push, Tally, Log or Clone

	Secret       string // signing key of the webhook's calls: whsec_…
	AllowPrivate bool   // allows a webhook at a private address and without TLS
}

// Default timeouts of hooks.
const (
	coldStartTimeout = 10 * time.Minute
	defaultTimeout   = time.Minute
	saveTimeout      = 30 * time.Minute // for Push and Pull, which take long for a large workspace
	// MostTimeout is the longest timeout that a hook may have.
	MostTimeout = time.Hour
)

func (s Spec) timeout() time.Duration {
	switch {
	case s.Timeout > 0:
		return s.Timeout
	case s.Builtin == Push || s.Builtin == Pull:
		return saveTimeout
	case s.Phase == OnColdStart:
		return coldStartTimeout
	}
	return defaultTimeout
}

// Kind returns the kind of the hook: builtin, webhook, command or function.
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

// Title returns the hook's name. A hook without one is named by its built-in hook or its kind.
func (s Spec) Title() string { return cmp.Or(s.Name, s.Builtin, s.Kind()) }

// Fault is a problem with one key of a hook.
type Fault struct{ Key, Value, Why, Fix string }

func (f *Fault) Error() string { return fmt.Sprintf("%s %s; %s", f.Key, f.Why, f.Fix) }

// Check returns the first problem of the hook, or nil.
func (s Spec) Check() *Fault {
	if !slices.Contains(Phases, s.Phase) {
		return &Fault{"phase", string(s.Phase), "is no phase", "write one of: " + joinPhases(Phases)}
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
	case s.Builtin != "" && builtinPhases[s.Builtin] != s.Phase:
		return badBuiltin(s)
	case s.Timeout < 0 || s.Timeout > MostTimeout:
		return &Fault{"timeout", s.Timeout.String(), "is longer than an hour", "write less"}
	case len(s.Name) > 63 || strings.ContainsFunc(s.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return &Fault{"name", s.Name, "is no name", "write up to 63 characters"}
	}
	return s.checkWebhook()
}

func badBuiltin(s Spec) *Fault {
	if phase, ok := builtinPhases[s.Builtin]; ok {
		return &Fault{"builtin", s.Builtin, "is a hook of another phase", "write phase = \"" + string(phase) + "\""}
	}
	return &Fault{"builtin", s.Builtin, "is no hook that Berth has", "write one of: clone, log, pull, push, store, tally"}
}

func joinPhases(phases []Phase) string {
	words := make([]string, len(phases))
	for i, p := range phases {
		words[i] = string(p)
	}
	return strings.Join(words, ", ")
}
