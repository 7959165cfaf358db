package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// versionFlag adds --version to a command that works with one.
func (d *depot) versionFlag(cmd *cobra.Command, version *string) {
	cmd.Flags().StringVar(version, "version", "", "`VERSION`, or enough of its beginning or end (default: the newest)")
	d.completeVersions(cmd, "version")
}

// completeVersions offers the versions there are, newest first, for a flag.
func (d *depot) completeVersions(cmd *cobra.Command, flag string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) (fits []cobra.Completion, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		repo, err := d.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for v, err := range repo.Versions(ctx) {
			if err != nil || len(fits) == mostCompletions {
				break
			}
			fits = append(fits, cobra.CompletionWithDesc(v.ID, clean(first(v.Note, d.f.when(v.At)))))
		}
		return fits, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	})
}
