package remote

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/ui"
)

// IDs describes one kind of things with ids, to complete short ids.
type IDs struct {
	Many string // name of the kind in the plural, shown to the user
	// Exact returns nil if ref is a whole id or a name.
	Exact func(ctx context.Context, c *Connection, ref string) error
	// All yields everything of this kind.
	All func(ctx context.Context, c *Connection) iter.Seq2[Candidate, error]
}

// SandboxIDs completes short ids of sandboxes.
var SandboxIDs = IDs{"sandboxes",
	func(ctx context.Context, c *Connection, ref string) error {
		_, err := c.Sandboxes.Get(ctx, ref)
		return err
	},
	func(ctx context.Context, c *Connection) iter.Seq2[Candidate, error] {
		return Candidates(c.Sandboxes.List(ctx, client.SandboxFilter{}), func(s api.Sandbox) Candidate { return Candidate{s.ID, s.Name} })
	},
}

// StoredSandboxIDs completes short ids of sandboxes, including deleted ones, whose versions may still exist.
var StoredSandboxIDs = IDs{"sandboxes", SandboxIDs.Exact,
	func(ctx context.Context, c *Connection) iter.Seq2[Candidate, error] {
		return func(yield func(Candidate, error) bool) {
			for _, deleted := range []bool{false, true} {
				for s, err := range c.Sandboxes.List(ctx, client.SandboxFilter{Deleted: deleted}) {
					if !yield(Candidate{s.ID, s.Name}, err) {
						return
					}
				}
			}
		}
	},
}

// ConversationIDs completes short ids of conversations.
var ConversationIDs = IDs{"conversations",
	func(ctx context.Context, c *Connection, ref string) error {
		_, err := c.Conversations.Get(ctx, ref)
		return err
	},
	func(ctx context.Context, c *Connection) iter.Seq2[Candidate, error] {
		return Candidates(c.Conversations.List(ctx, client.ConversationFilter{}), func(v api.Conversation) Candidate { return Candidate{v.ID, v.Title} })
	},
}

// Candidates converts items to candidates.
func Candidates[T any](items iter.Seq2[T, error], as func(T) Candidate) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		for item, err := range items {
			if !yield(as(item), err) {
				return
			}
		}
	}
}

// partOfID matches a text that may be the beginning or the end of a UUID.
var partOfID = regexp.MustCompile(`^[0-9a-f-]{4,35}$`)

// WholeID completes the beginning or the end of an id. It returns other texts and exact names unchanged. It reads all
// pages, because the text must match only one id.
func (c *Connection) WholeID(ctx context.Context, ref string, ids IDs) (string, error) {
	if !partOfID.MatchString(ref) {
		return ref, nil
	}
	if err := ids.Exact(ctx, c, ref); !IsCode(err, api.CodeNotFound) && !IsCode(err, api.CodeNoSuchExec) {
		return ref, nil // it exists, or the command itself reports the error
	}
	var found []Candidate
	for item, err := range ids.All(ctx, c) {
		if err != nil {
			return ref, c.Explain(err)
		}
		if (strings.HasPrefix(item.Word, ref) || strings.HasSuffix(item.Word, ref)) && !slices.Contains(found, item) {
			found = append(found, item) // once, also if it moved from one page or list to another
		}
	}
	switch len(found) {
	case 0:
		return ref, nil
	case 1:
		return found[0].Word, nil
	}
	return "", ambiguous(ref, ids.Many, found)
}

// maxCandidates is the maximum number of candidates in an error.
const maxCandidates = 5

func ambiguous(ref, many string, found []Candidate) error {
	text := fmt.Sprintf("%q is part of the ids of %d %s:", ref, len(found), many)
	for i, f := range found {
		if i == maxCandidates {
			text += "\n  …"
			break
		}
		text += "\n  " + strings.TrimRight(f.Word+"  "+ui.Clean(f.About), " ")
	}
	return ui.Usage(text, "Type more of the id, or a name.")
}

// ResolveSandboxes returns a PreRunE that completes short ids in the first most arguments; most < 0 means in all. An
// argument may have a path after a colon.
func (r *Remote) ResolveSandboxes(most int) func(*cobra.Command, []string) error {
	return r.Resolve(SandboxIDs, most)
}

// Resolve is like ResolveSandboxes for any kind of id.
func (r *Remote) Resolve(ids IDs, most int) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		for i := range args {
			if most >= 0 && i >= most {
				return nil
			}
			ref, _, _ := strings.Cut(args[i], ":")
			whole, err := r.WholeID(cmd.Context(), ref, ids)
			if err != nil {
				return err
			}
			args[i] = whole + args[i][len(ref):]
		}
		return nil
	}
}

// WholeID completes a short id. It connects to the server if ref may be one.
func (r *Remote) WholeID(ctx context.Context, ref string, ids IDs) (string, error) {
	if !partOfID.MatchString(ref) {
		return ref, nil
	}
	c, err := r.Connect()
	if err != nil {
		return ref, err
	}
	return c.WholeID(ctx, ref, ids)
}
