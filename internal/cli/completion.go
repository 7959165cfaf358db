package cli

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

const completionHelp = `Print the code that makes your shell complete berth's commands, flags, sandboxes, projects and keys.

  bash   source <(berth completion bash)                          for this shell
         berth completion bash > /etc/bash_completion.d/berth     for good; needs bash-completion
  zsh    source <(berth completion zsh)
         berth completion zsh > "${fpath[1]}/_berth"              for good
  fish   berth completion fish | source
         berth completion fish > ~/.config/fish/completions/berth.fish`

func (f *frame) completion(root *cobra.Command) *cobra.Command {
	shells := []cobra.Completion{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print shell completion",
		Long:      completionHelp,
		Example:   "  source <(berth completion bash)",
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef(cmd, "berth completion needs one shell: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(f.out, true)
			case "zsh":
				return root.GenZshCompletion(f.out)
			}
			return root.GenFishCompletion(f.out, true)
		},
	}
}

// Completion must never make a shell wait or wade through thousands of names.
const (
	completionPatience = 2 * time.Second
	mostCompletions    = 500
)

// offer completes a flag with these words, and never with the names of files.
func offer[T ~string](cmd *cobra.Command, flag string, words []T) {
	fits := make([]cobra.Completion, len(words))
	for i, word := range words {
		fits[i] = string(word)
	}
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(fits, cobra.ShellCompDirectiveNoFileComp))
}

// candidate is one word that would fit, and what it is.
type candidate struct{ word, about string }

// completeSandboxes offers the names of sandboxes, and the ids of those without, for the first
// most arguments; most < 0 means all.
func (f *frame) completeSandboxes(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := func(ctx context.Context, c *connection) iter.Seq2[api.Sandbox, error] {
			return c.Sandboxes.List(ctx, client.SandboxFilter{})
		}
		return complete(cmd.Context(), f, args, list, func(s api.Sandbox) candidate {
			return candidate{first(s.Name, s.ID), s.State}
		})
	}
}

// completeProjects offers the ids of projects, for the first most arguments; most < 0 means all.
func (f *frame) completeProjects(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := func(ctx context.Context, c *connection) iter.Seq2[api.ProjectSandbox, error] {
			return c.Projects.List(ctx, client.ProjectFilter{})
		}
		return complete(cmd.Context(), f, args, list, func(p api.ProjectSandbox) candidate {
			return candidate{p.ProjectID, p.Status}
		})
	}
}

func (f *frame) completeKeys(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := func(ctx context.Context, c *connection) iter.Seq2[api.Key, error] { return c.Keys.List(ctx) }
	return complete(cmd.Context(), f, args, list, func(k api.Key) candidate {
		if k.RevokedAt != nil {
			return candidate{}
		}
		return candidate{k.ID, k.Label}
	})
}

func (f *frame) completeAgents(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := func(ctx context.Context, c *connection) iter.Seq2[api.Agent, error] { return c.Agents.List(ctx) }
	return complete(cmd.Context(), f, args, list, func(a api.Agent) candidate { return candidate{first(a.Name, a.ID), a.Template} })
}

// complete asks the server what would fit. What is named already is not offered again, nor is
// anything that a terminal might obey.
func complete[T any](ctx context.Context, f *frame, args []string,
	list func(context.Context, *connection) iter.Seq2[T, error], as func(T) candidate,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	f.quiet = true // a warning would land in the middle of the line being typed
	c, err := f.connect(client.WithAttempts(1))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	var found []cobra.Completion
	for item, err := range list(ctx, c) {
		if err != nil || len(found) == mostCompletions {
			break
		}
		fit := as(item)
		if fit.word != "" && fit.word == clean(fit.word) && !slices.Contains(args, fit.word) {
			found = append(found, cobra.CompletionWithDesc(fit.word, clean(fit.about)))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeExecs offers a sandbox, and then the commands that were started in it.
func (f *frame) completeExecs(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return f.completeSandboxes(1)(cmd, args, typed)
	case 1:
		return f.offerExecs(cmd, args, func(api.ExecStatus) bool { return true })
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeTerminals offers the terminals that run in the sandbox that is named already.
func (f *frame) completeTerminals(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.offerExecs(cmd, args, func(e api.ExecStatus) bool { return e.Terminal && e.Running })
}

func (f *frame) offerExecs(cmd *cobra.Command, args []string, fits func(api.ExecStatus) bool) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := func(ctx context.Context, c *connection) iter.Seq2[api.ExecStatus, error] {
		return execs(ctx, c, args[0])
	}
	return complete(cmd.Context(), f, args, list, func(e api.ExecStatus) candidate {
		if !fits(e) {
			return candidate{}
		}
		return candidate{e.ExecID, execState(e).text + " " + commandOf(e)}
	})
}

// colon puts one behind the word, before what is said about it.
func colon(fit cobra.Completion) cobra.Completion {
	word, about, ok := strings.Cut(fit, "\t")
	if !ok {
		return word + ":"
	}
	return word + ":\t" + about
}
