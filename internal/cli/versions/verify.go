package versions

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) verify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify ID|NAME",
		Short: "Check the versions of a workspace",
		Long: `Let the server read every version of a sandbox's workspace with all its data, and compare it with the
checksums. Damage is reported.

Exits with 0 if every version is whole, otherwise with 1.`,
		Example:           "  berth verify scratch\n  berth verify scratch --json",
		Args:              ui.Args(1, 1, "the ID or NAME of one sandbox"),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runVerify(ctx, args[0]) }),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
	}
	return a.Online(cmd)
}

func (a *app) runVerify(ctx context.Context, ref string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	spin := a.Spin("verifying " + ui.Clean(ref))
	found, err := c.Sandboxes.Verify(ctx, ref)
	spin.Stop()
	if err != nil {
		return c.ExistingHint(ctx, ref, err)
	}
	if a.JSON {
		err = ui.WriteJSON(a.Out, found)
	} else {
		broken := map[string]bool{}
		for _, p := range found.Problems {
			broken[p.Version] = true
			a.Errorf("version %s, %s: %s", ui.Clean(p.Version), ui.Clean(ui.First(p.Path, "all of it")), ui.Clean(p.Why))
		}
		text := ui.Plural(found.Versions-len(broken), "version is", "versions are") + " whole"
		if len(broken) > 0 {
			text += fmt.Sprintf(", %d not", len(broken))
		}
		_, err = fmt.Fprintf(a.Out, "%s: read %s, %s\n", text, ui.Plural(found.Files, "file", "files"), ui.Size(found.Bytes))
	}
	if err == nil && len(found.Problems) > 0 {
		err = ui.ExitCode(1)
	}
	return err
}
