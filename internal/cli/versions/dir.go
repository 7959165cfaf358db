package versions

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

const workspaceHelp = `Save a directory as versions in an object store and restore them: the same as for the workspaces of
sandboxes, for any directory and without a server.

The store is a directory (/backup/versions, file:///backup/versions) or S3
(s3://BUCKET/PREFIX?endpoint=https://…&region=…), with the credentials of the AWS tools. Several
workspaces can share a store if each has its own --prefix.

A version has every file, and stores only what changed since the version before. In the directory,
.sandbox-state records the version that the directory was last synced with; .sandbox-state.idx makes the
next sync fast, and .sandbox-state.lock prevents two syncs at once. These three files are never saved. A
file .berthignore, in the syntax of .gitignore, lists other files to leave out.

Changes on both sides are never lost: 'push' is refused if the store has newer versions, and 'pull' and
'sync' keep both copies of a file that was changed on both sides.`

// dir returns the command "berth workspace", which syncs directories without a server.
func (a *app) dir() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:   "workspace",
		Short: "Save any directory as versions, without a server",
		Long:  workspaceHelp,
		Example: `  berth workspace push --store /backup/versions ~/project
  berth workspace versions --store /backup/versions
  berth workspace restore --store s3://bucket/project ~/project`,
	},
		a.workspacePush(), a.workspacePull(), a.workspaceSync(),
		a.workspaceVersions(), a.workspaceShow(), a.workspaceDiff(),
		a.workspaceRestore(), a.workspacePrune(), a.workspaceVerify(), a.workspaceExport(),
	)
}

// withOptionalDir returns a RunE for a command with an optional directory. The command uses only the store; the
// directory is just checked.
func (a *app) withOptionalDir(do func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return ui.Run(func(ctx context.Context, args []string) error {
		for _, dir := range args {
			t, err := workspace.OpenLocal(dir, a.localOptions(false))
			if err != nil {
				return err
			}
			t.Close()
		}
		return do(ctx)
	})
}

// completeDirs completes the single argument with names of directories.
func completeDirs(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
