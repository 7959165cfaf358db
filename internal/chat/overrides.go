package chat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
)

// Overrides are an agent's changes to its template. Access to mounts, the network and the driver is not among them:
// only the operator grants it, in the template.
type Overrides struct {
	Model   string            `json:"model,omitempty"`
	Profile string            `json:"profile,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// overridable lists the keys of Overrides for error messages.
const overridable = "model, profile and env"

// ParseOverrides parses the overrides in a request that creates or changes an agent. It refuses keys that would have
// no effect.
func ParseOverrides(text json.RawMessage) (o Overrides, err error) {
	if len(text) == 0 {
		return o, nil
	}
	refuse := func(format string, args ...any) (Overrides, error) {
		return Overrides{}, fault.Errorf("", api.CodeInvalidRequest, format, args...)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil || keys == nil {
		return refuse("expected object")
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch {
		case key == "model" || key == "profile" || key == "env":
		case template.HasKey(key):
			return refuse("an agent cannot change %q of its template; it can change %s", key, overridable)
		default:
			return refuse("there is no key %q; an agent can change %s of its template", key, overridable)
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&o); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return refuse("%s: expected %s, not %s", wrong.Field, wrong.Type, wrong.Value)
		}
		return refuse("%v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return refuse("expected one object")
	}
	if err := sandbox.CheckModel(o.Model); err != nil {
		return Overrides{}, err
	}
	switch {
	case o.Profile != "" && !slices.Contains(sandbox.Profiles, o.Profile):
		return refuse("there is no profile %q; there are: %s", o.Profile, strings.Join(sandbox.Profiles, ", "))
	}
	return o, sandbox.CheckEnv(o.Env)
}

// overrides returns the overrides of the conversation's agent, even if the agent was deleted.
func (c Conversations) overrides(ctx context.Context, agent string) (o Overrides, err error) {
	if agent == "" {
		return o, nil
	}
	a, err := c.scope().Agents().GetOrDeleted(ctx, agent)
	if err = cmp.Or(err, a.Problem); err != nil || len(a.Overrides) == 0 {
		return o, err
	}
	if err := json.Unmarshal(a.Overrides, &o); err != nil {
		return o, fault.Errorf("read the agent's overrides", api.CodeInvalidRequest, "agent %s: %w", agent, err)
	}
	return o, nil
}
