package cli

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/sandbox"
)

// about adds to a failure what a person can do who wanted to work with a sandbox.
func (c *connection) about(ctx context.Context, ref string, err error) error {
	return c.missing(ctx, ref, err, c.sandboxNames, "'berth ls' lists the sandboxes", "; 'berth create "+ref+"' makes this one")
}

// known is about for those who wanted one that was there already.
func (c *connection) known(ctx context.Context, ref string, err error) error {
	return c.missing(ctx, ref, err, c.sandboxNames, "'berth ls' lists the sandboxes", "")
}

// aboutProject is about for a project, and knownProject known.
func (c *connection) aboutProject(ctx context.Context, id string, err error) error {
	return c.missing(ctx, id, err, c.projectIDs, listsProjects(id), "; 'berth project ensure "+id+"' makes this one")
}

func (c *connection) knownProject(ctx context.Context, id string, err error) error {
	return c.missing(ctx, id, err, c.projectIDs, listsProjects(id), "")
}

// listsProjects says where ids of projects are found. Those are names mostly, and sandboxes have UUIDs.
func listsProjects(id string) string {
	list := "'berth project ls' lists the projects"
	if _, err := sandbox.ParseID(id); err == nil {
		list += " by their IDs, such as shop; if this is a sandbox's, 'berth get " + id + "' shows it"
	}
	return list
}

func (c *connection) missing(ctx context.Context, ref string, err error, names namer, list, otherwise string) error {
	if !isCode(err, api.CodeNotFound) {
		return c.explain(err)
	}
	if near := nearest(ctx, ref, names); near != "" {
		return &hinted{err, "Did you mean " + near + "? " + list + "."}
	}
	return &hinted{err, list + otherwise + "."}
}

// namer lists what there is by name.
type namer func(context.Context) iter.Seq2[string, error]

func (c *connection) sandboxNames(ctx context.Context) iter.Seq2[string, error] {
	return namesIn(c.Sandboxes.List(ctx, client.SandboxFilter{}), func(s api.Sandbox) string { return s.Name })
}

func (c *connection) projectIDs(ctx context.Context) iter.Seq2[string, error] {
	return namesIn(c.Projects.List(ctx, client.ProjectFilter{}), func(p api.ProjectSandbox) string { return p.ProjectID })
}

// namesIn are the names of items.
func namesIn[T any](items iter.Seq2[T, error], name func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for item, err := range items {
			if !yield(name(item), err) {
				return
			}
		}
	}
}

// nearest is a name that is a slip away, or none.
func nearest(ctx context.Context, ref string, names namer) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	best, least, n := "", len(ref)/3+1, 0
	for name, err := range names(ctx) {
		if n++; err != nil || n > mostCompletions {
			break
		}
		if d := config.Distance(strings.ToLower(ref), strings.ToLower(name)); name != "" && d < least {
			best, least = name, d
		}
	}
	return best
}

// nearestOf keeps the words that are nearest to what was typed.
func nearestOf(typed string, words []string) (near []string) {
	least := len(typed) + 1
	for _, word := range words {
		d := config.Distance(typed, word)
		if d < least {
			near, least = nil, d
		}
		if d == least {
			near = append(near, word)
		}
	}
	return near
}
