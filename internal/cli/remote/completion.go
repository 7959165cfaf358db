package remote

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/ui"
)

// IsCode reports whether err is a problem with the code.
func IsCode(err error, code api.Code) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == code
}

// Limits of completion. The shell waits for it, and long lists do not help the user.
const (
	CompletionTimeout = 2 * time.Second
	MaxCompletions    = 500
)

// Candidate is a word that completion offers, with a short description.
type Candidate struct{ Word, About string }

// CompleteSandboxes completes names of sandboxes, or ids of those without a name, in the first most arguments; most < 0
// means in all.
func (r *Remote) CompleteSandboxes(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := func(ctx context.Context, c *Connection) iter.Seq2[api.Sandbox, error] {
			return c.Sandboxes.List(ctx, client.SandboxFilter{})
		}
		return Complete(cmd.Context(), r, args, list, func(s api.Sandbox) Candidate {
			return Candidate{ui.First(s.Name, s.ID), s.State}
		})
	}
}

// CompleteProjects completes ids of projects in the first most arguments; most < 0 means in all.
func (r *Remote) CompleteProjects(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := func(ctx context.Context, c *Connection) iter.Seq2[api.ProjectSandbox, error] {
			return c.Projects.List(ctx, client.ProjectFilter{})
		}
		return Complete(cmd.Context(), r, args, list, func(p api.ProjectSandbox) Candidate {
			return Candidate{p.ProjectID, strings.ToLower(p.Status)}
		})
	}
}

// Complete gets candidates from the server. It leaves out words that are already in args, and words with characters
// that are unsafe at a terminal.
func Complete[T any](ctx context.Context, r *Remote, args []string,
	list func(context.Context, *Connection) iter.Seq2[T, error], as func(T) Candidate,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	r.Quiet = true // a warning would be printed into the command line
	c, err := r.Connect(client.WithAttempts(1))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(ctx, CompletionTimeout)
	defer cancel()
	var found []cobra.Completion
	for item, err := range list(ctx, c) {
		if err != nil || len(found) == MaxCompletions {
			break
		}
		fit := as(item)
		if fit.Word != "" && fit.Word == ui.Clean(fit.Word) && !slices.Contains(args, fit.Word) {
			found = append(found, cobra.CompletionWithDesc(fit.Word, ui.Clean(fit.About)))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}
