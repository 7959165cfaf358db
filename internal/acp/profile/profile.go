// Package profile describes the agents that speak the Agent Client Protocol (ACP): how each is started, where it keeps
// its state, and in what it differs from the protocol.
//
// A [Profile] is data, and each agent has its own file. [Find] returns one by its name in templates.
package profile

import (
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Profile is what Berth knows about one agent.
type Profile struct {
	Name    string   // name in templates, and of its directories
	Title   string   // name for people
	Command []string // the program is looked up in the directory Bin, then in PATH
	Tail    []string // arguments behind the flags of Settings

	// Packages are the npm packages that bring the agent, with the versions that it is tested with.
	Packages []Package
	// Programs are the names of its programs in Bin, with their paths in node_modules, which may be patterns. A file that
	// ends in .br is compressed with Brotli. If Node is true they are in JavaScript.
	Programs map[string]string
	Node     bool     // the programs need Node 22 or later, as node in PATH
	Keys     []string // variables that people set to give it a key
	Hosts    []string // host:port of its model service, for a template's egress

	// State are the variables that move the agent's state, with paths below its directory StateDir.
	State map[string]string
	Env   []string // further variables, as NAME=value
	// Defaults are variables that the agent needs besides a key. Those of the first key that is set are used.
	Defaults []Default
	Files    map[string]string // files below its directory StateDir that are made if they do not exist

	Free []Setting // settings with which it asks for nothing
	Ask  []Setting // settings with which it asks before it changes something; nil: it never asks
	Plan []Setting // settings with which it only reads and plans; nil: it has no such mode

	Model ModelSetting
	Usage Usage
	Quirks
}

// Package is an npm package with an exact version. In the name, {arch} stands for npm's name of the processor.
type Package struct{ Name, Version string }

// NPM returns the name of the package on this machine.
func (p Package) NPM() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return strings.ReplaceAll(p.Name, "{arch}", arch)
}

// Default are the variables for a key, as NAME=value. One that is set keeps its value, and if the first is set, the others
// are not used: the agent then has another service.
type Default struct {
	Key string
	Env []string
}

// Setting changes the behaviour of an agent. One of Flag, Env, Mode and Option is set.
type Setting struct {
	Flag   string // an argument of the command
	Env    string // a variable, as NAME=value
	Mode   string // the mode for session/set_mode
	Option string // the option for session/set_config_option, with Value
	Value  any
}

// ModelSetting is the way in which a client chooses the model.
type ModelSetting string

// The ways to choose the model.
const (
	ModelOption  ModelSetting = ""                  // the option "model"
	ModelRequest ModelSetting = "session/set_model" // a request for it
)

// Usage is the rule by which the tokens of a turn are counted.
type Usage struct {
	From  Source
	Exact bool // the counts are those of the whole turn; otherwise they are an estimate
	// Failed means that an answer without counts is a failed call of the model.
	Failed bool
}

// Source is the place of an agent's counts.
type Source string

// The sources.
const (
	FromNothing Source = ""        // the agent reports none: they are estimated by the length of texts
	FromContext Source = "context" // only the size of the context is known
	FromAnswer  Source = "answer"  // usage of the answer to the prompt
	FromQuota   Source = "quota"   // _meta.quota.token_count of the answer
	FromMeta    Source = "meta"    // _meta.usage of the answer
	FromCalls   Source = "calls"   // _meta.usage of a text update behind each call of the model
)

// Quirks are the differences of an agent from the protocol.
type Quirks struct {
	// QuietMS: the conversation so far is repeated behind the answer to session/load. It is over after this many
	// milliseconds without a message.
	QuietMS int
	// Rename is applied to the files of a session that is to be loaded, before the agent starts.
	Rename *Rename
	// WholeCalls: the first report of a tool's call has all that will be known of its input.
	WholeCalls bool
	// GrowingCalls: the input of a call comes in pieces, and nothing says which is the last.
	GrowingCalls bool
	// SilentFailures: the agent ends a turn without a word when a call of the model failed.
	SilentFailures bool
	// NoKinds: the agent does not say whether a tool only changes files.
	NoKinds bool
	// LateCalls: the agent reports a tool's call after the tool has started.
	LateCalls bool
	// LingersOnEOF: the agent does not end soon after its input was closed.
	LingersOnEOF bool
	// Failures are the beginnings of texts that may report a failed call of the model instead of an answer.
	Failures []string
	// Notes are the beginnings of texts that are remarks of the agent and no answer.
	Notes []string
	// Asides are the same while a tool runs.
	Asides []string
	// Retries are the beginnings of texts, or names of updates, after which an answer that was cut off begins again.
	Retries []string
	// RepeatsCut: an answer that was cut off begins again without any sign.
	RepeatsCut bool
}

// Rename gives the file of a session another name. In both patterns, {id8} is the start of the session's id, eight
// characters. If several files match, the largest is kept.
type Rename struct {
	Dir  string // pattern of the directory, below the agent's StateDir
	From string // pattern of the files of the session in it
	To   string // the new name
}

// Base is the directory of the agents' state inside. It is in the workspace, so it is saved and restored with it.
const Base = "/workspace/.berth"

// The permission modes of templates. They have the names of Claude Code's modes.
const (
	ModeEverything = "bypassPermissions" // the agent asks for nothing
	ModeEdits      = "acceptEdits"       // it may read and change files
	ModePlan       = "plan"              // it only reads and plans
	ModeNothing    = "dontAsk"           // what it asks for is denied
)

// Settings returns the settings for a permission mode; the empty mode is ModeEverything. It is not ok if the agent
// cannot be held to the mode. In all modes but ModeEverything the agent asks, and its client answers.
func (p Profile) Settings(mode string) (settings []Setting, ok bool) {
	switch mode {
	case "", ModeEverything:
		return p.Free, true
	case ModePlan:
		return p.Plan, p.Plan != nil
	case ModeEdits:
		return p.Ask, p.Ask != nil && !p.NoKinds
	case ModeNothing:
		return p.Ask, p.Ask != nil
	}
	return nil, false
}

// Environment returns the agent's variables in a permission mode, as NAME=value.
func (p Profile) Environment(mode string) []string {
	env := slices.Clone(p.Env)
	for _, name := range slices.Sorted(maps.Keys(p.State)) {
		env = append(env, name+"="+path.Join(p.StateDir(), p.State[name]))
	}
	settings, _ := p.Settings(mode)
	for _, s := range settings {
		if s.Env != "" {
			env = append(env, s.Env)
		}
	}
	return env
}

// StateDir returns the directory of the agent's state inside.
func (p Profile) StateDir() string { return Base + "/" + p.Name }

// Mount returns the directory inside where a template mounts the installed agent.
func (p Profile) Mount() string { return "/opt/" + p.Name }

// Bin returns the directory inside that is searched for the agent's programs before PATH.
func (p Profile) Bin() string { return p.Mount() + "/bin" }

// all are the profiles by name.
var all = byName(claude, cline, codex, copilot, cursor, gemini, goose, grok, kilo, kimi, opencode, pi, qwen)

func byName(list ...Profile) map[string]Profile {
	m := map[string]Profile{}
	for _, p := range list {
		m[p.Name] = p
	}
	return m
}

// Find returns the profile with the name. The empty name is an agent that nothing is known about.
func Find(name string) (Profile, bool) {
	if name == "" {
		return Profile{Name: Other, Title: "the agent"}, true
	}
	p, ok := all[name]
	return p, ok
}

// Other is the name of the directories of agents without a profile.
const Other = "acp"

// Names returns the names of all profiles, sorted.
func Names() []string { return slices.Sorted(maps.Keys(all)) }
