package cli

import (
	"context"

	"github.com/spf13/cobra"
)

const workspaceHelp = `Save a directory as versions in an object store, and bring them back: what Berth does for the
workspaces of sandboxes, for any directory and without a server.

The store is a directory (/backup/versions, file:///backup/versions) or S3
(s3://BUCKET/PREFIX?endpoint=https://…&region=…), with the credentials that the AWS tools use. Several
workspaces share a store when each has a --prefix of its own.

A version is every file as it was, and costs what changed. In the directory, .sandbox-state says which
version it was last the same as; .sandbox-state.idx makes the next sync fast, and .sandbox-state.lock
keeps two of them apart. None of the three is ever saved. A file .berthignore, with gitignore's rules,
names what else is left out.

What is changed on both sides is never lost: 'push' is refused when the store has newer versions, and
'pull' and 'sync' keep both copies of a file that was changed here and there.`

// workspace is the sync engine without a server.
func (f *frame) workspace() *cobra.Command {
	return group(&cobra.Command{
		Use:   "workspace",
		Short: "Save any directory as versions, without a server",
		Long:  workspaceHelp,
		Example: `  berth workspace push --store /backup/versions ~/project
  berth workspace versions --store /backup/versions
  berth workspace restore --store s3://bucket/project ~/project`,
	},
		f.workspacePush(), f.workspacePull(), f.workspaceSync(),
		f.workspaceVersions(), f.workspaceShow(), f.workspaceDiff(),
		f.workspaceRestore(), f.workspacePrune(), f.workspaceVerify(), f.workspaceExport(),
	)
}

// perhaps takes the directory of a command that needs none: everything it has to know is in the store.
func (f *frame) perhaps(do func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return run(func(ctx context.Context, args []string) error {
		for _, dir := range args {
			t, err := f.openTree(dir)
			if err != nil {
				return err
			}
			t.close()
		}
		return do(ctx)
	})
}

// folders completes the arguments of a command that takes one directory.
func folders(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
