package cli

import (
	"context"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/config"
)

// about adds to a failure what a person can do who wanted to work with a sandbox.
func (c *connection) about(ctx context.Context, ref string, err error) error {
	return c.missing(ctx, ref, err, "; 'berth create "+ref+"' makes this one")
}

// known is about for those who wanted one that was there already.
func (c *connection) known(ctx context.Context, ref string, err error) error {
	return c.missing(ctx, ref, err, "")
}

func (c *connection) missing(ctx context.Context, ref string, err error, otherwise string) error {
	if !isCode(err, api.CodeNotFound) {
		return c.explain(err)
	}
	const list = "'berth ls' lists the sandboxes"
	if near := c.nearest(ctx, ref); near != "" {
		return &hinted{err, "Did you mean " + near + "? " + list + "."}
	}
	return &hinted{err, list + otherwise + "."}
}

// nearest is a sandbox whose name is a slip away, or none.
func (c *connection) nearest(ctx context.Context, ref string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	best, least, n := "", len(ref)/3+1, 0
	for s, err := range c.Sandboxes.List(ctx, client.SandboxFilter{}) {
		if n++; err != nil || n > mostCompletions {
			break
		}
		if d := config.Distance(strings.ToLower(ref), s.Name); s.Name != "" && d < least {
			best, least = s.Name, d
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
