package template

import (
	"fmt"
	"slices"
	"strings"
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
// default hook is left out if the template drops it or lists it itself. The result is nil for an unknown template.
func (r *Registry) Hooks(name string) []hook.Spec {
	t, ok := r.all[name]
	if !ok {
		return nil
	}
	specs := []hook.Spec{}
	for _, d := range hook.Defaults() {
		if !t.lists(d.Builtin) && !t.drops(d.Builtin) {
			specs = append(specs, d)
		}
	}
	for _, h := range t.Hooks {
		specs = append(specs, h.spec())
	}
	return specs
}

// lists reports whether the template's own hooks have the built-in hook.
func (t Template) lists(builtin string) bool {
	return slices.ContainsFunc(t.Hooks, func(h Hook) bool { return h.Builtin == builtin })
}

// drops reports whether the template drops a default hook.
func (t Template) drops(builtin string) bool {
	return slices.Contains(t.DropHooks, builtin) || t.DefaultHooks != nil && !*t.DefaultHooks && hook.Optional(builtin)
}

func (c *checker) checkDropHooks() {
	var names []string
	for _, d := range hook.Defaults() {
		names = append(names, d.Builtin)
	}
	for _, name := range c.DropHooks {
		switch {
		case !slices.Contains(names, name):
			c.refuse("drop_hooks", name, "is no default hook", "write some of: "+strings.Join(names, ", "))
		case c.lists(name):
			c.refuse("drop_hooks", name, "is listed in hooks, too", "remove it from one of the two")
		case name == hook.Pull && !uniquePattern(c.pattern()):
			c.refuse("drop_hooks", name, "is needed where sandboxes share a workspace: the first save would remove the others' files",
				"write {sandbox} or {owner} in s3_key_prefix, or init_from_s3 = false")
		}
	}
}

func (c *checker) checkHooks() {
	c.checkDropHooks()
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
