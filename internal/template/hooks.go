package template

import (
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/hook"
)

// Hook is the configuration of a hook: a command in the sandbox, a webhook, or a built-in one.
type Hook struct {
	Name    string   `toml:"name"`
	Phase   string   `toml:"phase"` // cold_start, message, stream_finish, version.saved or terminate
	Timeout Duration `toml:"timeout"`

	Command Command   `toml:"command"`
	URL     string    `toml:"url"`
	Builtin string    `toml:"builtin"`
	Run     hook.Func `toml:"-"` // set by templates written in Go

	Secret       string `toml:"secret"`        // whsec_…: key that signs the webhook's requests
	AllowPrivate bool   `toml:"allow_private"` // the webhook may have an address in the server's own network
}

func (h Hook) spec() hook.Spec {
	return hook.Spec{
		Name: h.Name, Phase: hook.Phase(h.Phase), Timeout: time.Duration(h.Timeout),
		Run: h.Run, Command: h.Command, URL: h.URL, Builtin: h.Builtin,
		Secret: h.Secret, AllowPrivate: h.AllowPrivate,
	}
}

// Duration is a time limit in a template: "30s".
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

// maxHooks is the maximum number of hooks of a template.
const maxHooks = 32

// Hooks returns the hooks of a template in the order in which they run: first the default hooks, then its own. A
// default hook is left out if the template turns default hooks off or lists that hook itself. An unknown template has
// no hooks.
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
	if len(c.Hooks) > maxHooks {
		c.refuse("hooks", "", fmt.Sprintf("are %d, more than %d", len(c.Hooks), maxHooks), "write fewer")
		return
	}
	for i, h := range c.Hooks {
		spec := h.spec()
		fault := spec.Check()
		if fault == nil && spec.URL != "" && c.repeatsWebhook(i, h) {
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

// repeatsWebhook reports whether an earlier hook calls the same webhook in the same phase.
func (c *checker) repeatsWebhook(i int, h Hook) bool {
	return slices.ContainsFunc(c.Hooks[:i], func(other Hook) bool { return other.URL == h.URL && other.Phase == h.Phase })
}
