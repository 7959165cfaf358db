package process

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

// openFlags holds the flags and arguments of open.
type openFlags struct {
	ref, path       string
	port            uint16
	expires         time.Duration
	noBrowser, stop bool
}

func (a *app) open() *cobra.Command {
	var want openFlags
	cmd := &cobra.Command{
		Use:   "open ID|NAME PORT",
		Short: "Open a port of a sandbox in a browser",
		Long: `Make a signed URL of a port of a sandbox, print it, and open it in a browser if this machine has one. Everyone
who has the URL may use the port, until it expires or is revoked, or until the key that made it ends. Opening it
wakes a stopped sandbox.

Each port has an origin for itself, so that pages work as on the machine itself.`,
		Example:           "  berth open scratch 3000\n  berth open scratch 3000 --path '/login?next=/' --expires 24h\n  berth open scratch 3000 --revoke",
		Args:              ui.Args(2, 2, "the ID or NAME of one sandbox and a PORT"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
		RunE: ui.Run(func(ctx context.Context, args []string) (err error) {
			want.ref = args[0]
			if want.port, err = parsePort(args[1]); err != nil {
				return err
			}
			return a.runOpen(ctx, want)
		}),
	}
	flags := a.Online(cmd).Flags()
	flags.StringVar(&want.path, "path", "", "`PATH` and query to open (default: /)")
	flags.DurationVar(&want.expires, "expires", 0, "lifetime of the URL, such as 24h; seven days at most (default: 1h)")
	flags.BoolVar(&want.noBrowser, "no-browser", false, "only print the URL")
	flags.BoolVar(&want.stop, "revoke", false, "revoke all URLs of the port instead")
	for _, name := range []string{"path", "expires"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	cmd.MarkFlagsMutuallyExclusive("revoke", "path")
	cmd.MarkFlagsMutuallyExclusive("revoke", "expires")
	return cmd
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, ui.Usage(fmt.Sprintf("%q is not a port", ui.Clean(text)), "A port is a number from 1 to 65535; 'berth ports SANDBOX' lists those that listen.")
	}
	return uint16(n), nil
}

func (a *app) runOpen(ctx context.Context, want openFlags) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if want.stop {
		if err := c.Sandboxes.RevokePortURLs(ctx, want.ref, want.port, ""); err != nil {
			return c.ExistingHint(ctx, want.ref, err)
		}
		a.Printf("revoked the URLs of port %d of %s", want.port, ui.Clean(want.ref))
		return nil
	}
	if want.expires != 0 && want.expires < time.Second {
		return ui.Usage("--expires is shorter than a second", "Give it with a unit, such as 24h.")
	}
	made, err := c.Sandboxes.CreatePortURL(ctx, want.ref, want.port, api.CreatePortURL{ExpiresInSeconds: int64(want.expires / time.Second), Path: want.path})
	if err != nil {
		return c.ExistingHint(ctx, want.ref, err)
	}
	if a.JSON {
		return ui.WriteJSON(a.Out, made)
	}
	if _, err := fmt.Fprintln(a.Out, ui.Clean(made.URL)); err != nil {
		return err
	}
	if !want.noBrowser && a.Out.TTY {
		a.openBrowser(made.URL)
	}
	return nil
}

// openBrowser opens an address in the user's browser, if there is one. The printed address is there in any case.
func (a *app) openBrowser(address string) {
	display := ""
	for _, name := range []string{"DISPLAY", "WAYLAND_DISPLAY"} {
		if value, _ := a.Env(name); value != "" {
			display = value
		}
	}
	program, err := exec.LookPath("xdg-open")
	if mac, failed := exec.LookPath("/usr/bin/open"); failed == nil {
		program, err, display = mac, nil, "here"
	}
	if err != nil || display == "" {
		return
	}
	cmd := exec.Command(program, address)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}
