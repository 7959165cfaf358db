package remote

import (
	"fmt"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

// CheckKey returns an error with what to type if the template's agent has no key in a new sandbox with the variables.
func CheckKey(t api.Template, env map[string]string) error {
	key := t.MissingKey
	if key == "" {
		return nil
	}
	inside := slices.Contains(t.KeyEnv, key) // otherwise it is for a service, outside the sandbox
	for _, name := range t.KeyEnv {
		if inside && env[name] != "" {
			return nil
		}
	}
	return ui.Hint(api.NewProblem(api.CodeModelKeyMissing, fmt.Sprintf("the agent of the template %s has no key: %s is not set", t.Name, key)),
		KeyHint(key, t.Name, inside))
}

// KeyHint says what to type for a missing key.
func KeyHint(key, template string, inside bool) string {
	if !inside {
		return fmt.Sprintf("Type 'berth secret set %s'; it is used outside the sandboxes of all of your tenant.", key)
	}
	return fmt.Sprintf("Type 'berth secret set %[1]s' once for all of your tenant, or give it to one conversation: berth chat -t %[2]s --env %[1]s", key, template)
}
