package versions

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) restore() *cobra.Command {
	var want api.RestoreVersion
	cmd := &cobra.Command{
		Use:   "restore ID|NAME [VERSION]",
		Short: "Restore a version of a workspace",
		Long: `Restore a version into its sandbox. The current files are saved as a version first, and the restored
files become the newest version, so nothing is lost. Processes are not stopped. Refused while a command
or a terminal is attached, unless --force is given. At a terminal it asks first.

With --into the version is restored into a new sandbox of the same kind, and this one stays as it is.
This works for a deleted sandbox, too; give its id.`,
		Example:           "  berth restore scratch 1a2b3c\n  berth restore scratch 1a2b3c --into scratch-then",
		ValidArgsFunction: a.completeVersions(1),
		PreRunE:           a.ResolveSandboxes(1),
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if want.Into != "" {
			return ui.Args(1, 2, "the ID or NAME of one sandbox, and at most one VERSION")(cmd, args)
		}
		return ui.Args(2, 2, "the ID or NAME of one sandbox, and a VERSION; with --into the newest is the default")(cmd, args)
	}
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		return a.runRestore(ctx, args[0], strings.Join(args[1:], ""), want)
	})
	cmd.Flags().StringVar(&want.Into, "into", "", "`NAME` of a new sandbox to bring it into")
	cmd.Flags().BoolVar(&want.Force, "force", false, "also while the sandbox is in use")
	ui.Offer(cmd, "into", []string{})
	a.YesFlag(cmd)
	a.QuietFlag(cmd, "the new version")
	return a.Online(cmd)
}

func (a *app) runRestore(ctx context.Context, ref, typed string, want api.RestoreVersion) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if typed != "" {
		if want.Version, err = findVersion(ctx, c, ref, typed); err != nil {
			return c.ExistingHint(ctx, ref, err)
		}
	}
	if want.Into == "" {
		if err := a.Confirm(ctx, fmt.Sprintf("Make the workspace of %s what it was in version %s?", ref, want.Version)); err != nil {
			return err
		}
	}
	spin := a.Spin("restoring " + ui.Clean(ui.First(want.Version, "the newest version")))
	res, err := c.Sandboxes.Restore(ctx, ref, want)
	spin.Stop()
	if err != nil {
		return c.ExistingHint(ctx, ref, err)
	}
	return a.printSync(res.Synced, res, fmt.Sprintf("%s has version %s now%s", ui.First(res.Sandbox.Name, res.SandboxID), res.From, counts(statsOf(res.Stats))))
}
