package remote

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/sandbox"
)

// NotFoundHint adds a next step to the error that a sandbox was not found: the most similar name, or the command that
// creates it.
func (c *Connection) NotFoundHint(ctx context.Context, ref string, err error) error {
	return c.Hint(ctx, ref, err, c.sandboxNames, "'berth ls' lists the sandboxes", "; 'berth create "+ref+"' makes this one")
}

// ExistingHint is like NotFoundHint for a command that needs an existing sandbox.
func (c *Connection) ExistingHint(ctx context.Context, ref string, err error) error {
	return c.Hint(ctx, ref, err, c.sandboxNames, "'berth ls' lists the sandboxes", "")
}

// WholeIDHint is like ExistingHint for a command that does not take short ids. If ref is one, the hint contains the
// whole id.
func (c *Connection) WholeIDHint(ctx context.Context, ref string, err error) error {
	if IsCode(err, api.CodeNotFound) {
		if whole, problem := c.WholeID(ctx, ref, SandboxIDs); problem == nil && whole != ref {
			return ui.Hint(err, "This command takes a name or a whole id. The id that ends or begins so is "+whole+".")
		}
	}
	return c.ExistingHint(ctx, ref, err)
}

// StoredHint adds the commands that list sandboxes to the error that a sandbox or its versions were not found.
func (c *Connection) StoredHint(err error) error {
	if !IsCode(err, api.CodeNotFound) {
		return c.Explain(err)
	}
	return ui.Hint(err, "'berth ls --deleted' lists deleted sandboxes, 'berth ls' the others.")
}

// ProjectHint is like NotFoundHint for a project.
func (c *Connection) ProjectHint(ctx context.Context, id string, err error) error {
	return c.Hint(ctx, id, err, c.projectIDs, projectListHint(id), "; 'berth project ensure "+id+"' makes this one")
}

// ExistingProjectHint is like ProjectHint for a command that needs an existing project.
func (c *Connection) ExistingProjectHint(ctx context.Context, id string, err error) error {
	return c.Hint(ctx, id, err, c.projectIDs, projectListHint(id), "")
}

// projectListHint returns a hint where to find ids of projects. A UUID is probably the id of a sandbox, so the hint
// says so.
func projectListHint(id string) string {
	list := "'berth project ls' lists the projects"
	if _, err := sandbox.ParseID(id); err == nil {
		list += " by their IDs, such as shop; if this is a sandbox's, 'berth get " + id + "' shows it"
	}
	return list
}

// Hint adds the most similar name, or the command that lists names, to a not-found error.
func (c *Connection) Hint(ctx context.Context, ref string, err error, names Names, list, otherwise string) error {
	if !IsCode(err, api.CodeNotFound) {
		return c.Explain(err)
	}
	if near := Nearest(ctx, ref, names); near != "" {
		return ui.Hint(err, "Did you mean "+near+"? "+list+".")
	}
	return ui.Hint(err, list+otherwise+".")
}

// Names lists the names of existing things of one kind.
type Names func(context.Context) iter.Seq2[string, error]

func (c *Connection) sandboxNames(ctx context.Context) iter.Seq2[string, error] {
	return NamesIn(c.Sandboxes.List(ctx, client.SandboxFilter{}), func(s api.Sandbox) string { return s.Name })
}

func (c *Connection) projectIDs(ctx context.Context) iter.Seq2[string, error] {
	return NamesIn(c.Projects.List(ctx, client.ProjectFilter{}), func(p api.ProjectSandbox) string { return p.ProjectID })
}

// NamesIn yields the names of items.
func NamesIn[T any](items iter.Seq2[T, error], name func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for item, err := range items {
			if !yield(name(item), err) {
				return
			}
		}
	}
}

// Nearest returns the name that is most similar to ref, or the empty string if none is similar enough.
func Nearest(ctx context.Context, ref string, names Names) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	best, least, n := "", len(ref)/3+1, 0
	for name, err := range names(ctx) {
		if n++; err != nil || n > MaxCompletions {
			break
		}
		if d := config.Distance(strings.ToLower(ref), strings.ToLower(name)); name != "" && d < least {
			best, least = name, d
		}
	}
	return best
}
