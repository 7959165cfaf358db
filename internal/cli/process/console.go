package process

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// Console returns the command that opens the console.
func Console(r *remote.Remote) *cobra.Command {
	a := &app{r}
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Open the console in a browser",
		Long: `Make a link that signs a browser in to the console, print it, and open it if this machine has a browser. The link works
once, within ten minutes. The browser then acts with the key of this command, until it signs out or the key ends.`,
		Example: "  berth console\n  berth console --no-browser",
		Args:    ui.Args(0, 0, "no arguments"),
		RunE: ui.Run(func(ctx context.Context, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			link, err := c.Keys.SignInLink(ctx)
			if err != nil {
				return err
			}
			if a.JSON {
				return ui.WriteJSON(a.Out, link)
			}
			address := c.Server + link.Path
			if _, err := fmt.Fprintln(a.Out, ui.Clean(address)); err != nil {
				return err
			}
			if !noBrowser && a.Out.TTY {
				a.openBrowser(address)
			}
			return nil
		}),
	}
	a.Online(cmd).Flags().BoolVar(&noBrowser, "no-browser", false, "only print the link")
	return cmd
}
