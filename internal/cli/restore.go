package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) restore() *cobra.Command {
	var want api.RestoreVersion
	cmd := &cobra.Command{
		Use:   "restore ID|NAME [VERSION]",
		Short: "Bring a version of a sandbox's workspace back",
		Long: `Bring a version back. What is in the workspace is saved as a version first, and what was brought back becomes
the newest one, so that nothing is lost by it. Nothing that runs in the sandbox is stopped; while a
command or a terminal is attached it is refused, unless --force is given. A terminal is asked first.

With --into the sandbox stays as it is, and a new one of the same kind gets the version. That is also the
way back for a deleted sandbox, which is found by its id.`,
		Example:           "  berth restore scratch 1a2b3c\n  berth restore scratch 1a2b3c --into scratch-then",
		ValidArgsFunction: f.completeVersions(1),
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if want.Into != "" {
			return takes(1, 2, "the ID or NAME of one sandbox, and at most one VERSION")(cmd, args)
		}
		return takes(2, 2, "the ID or NAME of one sandbox, and a VERSION; with --into the newest is the default")(cmd, args)
	}
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		return f.runRestore(ctx, args[0], strings.Join(args[1:], ""), want)
	})
	cmd.Flags().StringVar(&want.Into, "into", "", "`NAME` of a new sandbox to bring it into")
	cmd.Flags().BoolVar(&want.Force, "force", false, "also while somebody works in the sandbox")
	offer(cmd, "into", []string{})
	f.confirmed(cmd)
	f.quietly(cmd, "the new version")
	return f.online(cmd)
}

func (f *frame) runRestore(ctx context.Context, ref, typed string, want api.RestoreVersion) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if typed != "" {
		if want.Version, err = c.version(ctx, ref, typed); err != nil {
			return c.known(ctx, ref, err)
		}
	}
	if want.Into == "" {
		if err := f.ask(ctx, fmt.Sprintf("Make the workspace of %s what it was in version %s?", ref, want.Version)); err != nil {
			return err
		}
	}
	spin := f.spin("restoring " + clean(first(want.Version, "the newest version")))
	res, err := c.Sandboxes.Restore(ctx, ref, want)
	spin.stop()
	if err != nil {
		return c.known(ctx, ref, err)
	}
	return f.tellSynced(res.Synced, res, fmt.Sprintf("%s has version %s now%s", first(res.Sandbox.Name, res.SandboxID), res.From, counts(statsOf(res.Stats))))
}
