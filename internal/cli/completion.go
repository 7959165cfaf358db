package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
)

const completionHelp = `Print the code that makes your shell complete berth's commands, flags, sandboxes, projects and keys.

  bash   source <(berth completion bash)                          for this shell
         berth completion bash > /etc/bash_completion.d/berth     for good; needs bash-completion
  zsh    source <(berth completion zsh)
         berth completion zsh > "${fpath[1]}/_berth"              for good
  fish   berth completion fish | source
         berth completion fish > ~/.config/fish/completions/berth.fish`

func (a *app) completion(root *cobra.Command) *cobra.Command {
	shells := []cobra.Completion{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print shell completion",
		Long:      completionHelp,
		Example:   "  source <(berth completion bash)",
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return ui.Usagef(cmd, "berth completion needs one shell: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Out, true)
			case "zsh":
				return root.GenZshCompletion(a.Out)
			}
			return root.GenFishCompletion(a.Out, true)
		},
	}
}
