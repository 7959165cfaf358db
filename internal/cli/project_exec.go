package cli

import "github.com/spf13/cobra"

func (f *frame) projectExec() *cobra.Command {
	return f.execIn(ofProject, &cobra.Command{
		Use:   "exec ID [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command in a project's sandbox",
		Long: `Run a command in a project's sandbox and end with its exit code. It is 'berth exec' in all else:
'berth exec --help' tells of input, terminals, signals and exit codes.

The project must be there; a sandbox that is stopped is started first.`,
		Example: `  berth project exec shop uname -a
  berth project exec shop -w src --timeout 2m -- go test ./...
  berth project exec shop -it -- bash`,
		Args:              takes(1, -1, "the ID of one project and a command"),
		ValidArgsFunction: f.completeProjects(1),
	})
}
