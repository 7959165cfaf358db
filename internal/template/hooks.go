package template

import (
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/hook"
)

// Hook is a hook as it is written down: a command in the sandbox, a webhook, or one that Berth has.
type Hook struct {
	Name    string   `toml:"name"`
	Phase   string   `toml:"phase"` // cold_start, message, stream_finish, version.saved or terminate
	Timeout Duration `toml:"timeout"`

	Command Command   `toml:"command"`
	URL     string    `toml:"url"`
	Builtin string    `toml:"builtin"`
	Run     hook.Func `toml:"-"` // of templates written in Go

	Secret       string `toml:"secret"`        // whsec_…: the webhook's calls are signed with it
	AllowPrivate bool   `toml:"allow_private"` // the webhook may be in the server's own network
}

func (h Hook) spec() hook.Spec {
	return hook.Spec{
		Name: h.Name, Phase: hook.Phase(h.Phase), Timeout: time.Duration(h.Timeout),
		Run: h.Run, Command: h.Command, URL: h.URL, Builtin: h.Builtin,
		Secret: h.Secret, AllowPrivate: h.AllowPrivate,
	}
}

// Duration is how long something may take: "30s".
type Duration time.Duration

// UnmarshalTOML reads a duration.
func (d *Duration) UnmarshalTOML(v any) error {
	text, ok := number(v)
	if !ok {
		return &config.Misfit{Why: "has a type that does not fit", Fix: `write a duration, such as "30s"`}
	}
	n, err := config.ParseDuration(text)
	if err == nil && n <= 0 {
		err = &config.Misfit{Why: "is no time to run", Fix: `write a duration, such as "30s"`}
	}
	*d = Duration(n)
	return err
}

// mostHooks is how many a template may have.
const mostHooks = 32

// Hooks are the hooks of a template in the order in which they run: first the defaults that it neither
// drops nor has elsewhere in its list. An unknown template has none.
func (r *Registry) Hooks(name string) []hook.Spec {
	t, ok := r.all[name]
	if !ok {
		return nil
	}
	var specs []hook.Spec
	if t.DefaultHooks == nil || *t.DefaultHooks {
		for _, d := range hook.Defaults() {
			if !slices.ContainsFunc(t.Hooks, func(h Hook) bool { return h.Builtin == d.Builtin }) {
				specs = append(specs, d)
			}
		}
	}
	for _, h := range t.Hooks {
		specs = append(specs, h.spec())
	}
	return specs
}

func (c *checker) checkHooks() {
	if len(c.Hooks) > mostHooks {
		c.refuse("hooks", "", fmt.Sprintf("are %d, more than %d", len(c.Hooks), mostHooks), "write fewer")
		return
	}
	for i, h := range c.Hooks {
		spec := h.spec()
		fault := spec.Check()
		if fault == nil && spec.URL != "" && c.twice(i, h) {
			fault = &hook.Fault{Key: "url", Why: "is called twice in one phase", Fix: "remove one of the two"}
		}
		if fault == nil {
			continue
		}
		key := fmt.Sprintf("hooks[%d]", i+1)
		if fault.Key != "" {
			key += "." + fault.Key
		}
		c.refuse(key, fault.Value, fault.Why, fault.Fix)
	}
}

// twice reports whether an earlier hook calls the same webhook in the same phase.
func (c *checker) twice(i int, h Hook) bool {
	return slices.ContainsFunc(c.Hooks[:i], func(other Hook) bool { return other.URL == h.URL && other.Phase == h.Phase })
}
