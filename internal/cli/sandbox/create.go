package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// createRequest holds the flags of create.
type createRequest struct {
	api.CreateSandbox
	remote.CreateFlags
}

func (a *app) create() *cobra.Command {
	var want createRequest
	cmd := &cobra.Command{
		Use:   "create [NAME]",
		Short: "Create a sandbox",
		Long: `Create a sandbox and wait until it runs.

If a sandbox with the name exists, it is returned; another template or driver than that sandbox has is
refused. Exits with 124 if it does not run within --timeout.

--from always creates a new sandbox. It starts with the newest saved version of another sandbox, also of
a deleted one; 'berth ls --deleted' lists those.`,
		Example: `  berth create scratch
  berth create scratch --driver fake --metadata team=blue
  TOKEN=… berth create scratch --env TOKEN --env MODE=test
  berth create scratch --from 2f1f7a10
  id=$(berth create -q)`,
		Args: ui.Args(0, 1, "one NAME"),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			want.Name = ui.First(args...)
			return a.runCreate(ctx, want)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.Online(cmd).Flags().StringVar(&want.ID, "id", "", "`UUID` to make it under (default: a new one)")
	cmd.Flags().StringVar(&want.From, "from", "", "`ID` of a sandbox, also of a deleted one, whose newest version to start with")
	ui.Offer(cmd, "from", []string{})
	a.CreateFlags(cmd, &want.CreateFlags)
	a.QuietFlag(cmd, "the id")
	return cmd
}

func (a *app) runCreate(ctx context.Context, want createRequest) (err error) {
	if want.Env, want.Metadata, err = want.Values(a.Remote); err != nil {
		return err
	}
	req, flags := &want.CreateSandbox, want.CreateFlags
	req.Template, req.Driver, req.Profile = flags.Template, flags.Driver, flags.Profile
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if req.From, err = c.WholeID(ctx, req.From, remote.StoredSandboxIDs); err != nil {
		return err
	}
	start := a.Now()
	var sandbox api.Sandbox
	var made bool
	err = a.Await(ctx, remote.Wait{
		What: "creating " + orNew(want.CreateSandbox), Look: lookCommand(want.CreateSandbox), Most: want.Timeout,
		State: c.StateOf(ui.First(want.ID, want.Name)),
	}, func(ctx context.Context) error {
		sandbox, made, err = c.Sandboxes.Create(ctx, want.CreateSandbox)
		return err
	})
	switch {
	case err != nil && req.From != "":
		return c.StoredHint(err)
	case err != nil:
		return c.Explain(err)
	}
	return a.showCreated(sandbox, made, a.Now().Sub(start))
}

func (a *app) showCreated(s api.Sandbox, made bool, took time.Duration) error {
	switch {
	case a.Quiet:
		return a.Line(s.ID)
	case a.JSON:
		return ui.WriteJSON(a.Out, s)
	}
	ref := ui.Clean(ui.First(s.Name, s.ID))
	if err := a.PrintCreated(ref, s.State, made, took); err != nil {
		return err
	}
	if err := a.Details([]ui.Detail{{"id", s.ID}, {"driver", s.Driver}, {"template", s.Template}}); err != nil {
		return err
	}
	if a.Out.TTY {
		fmt.Fprintf(a.Out, "\nNext:\n  berth exec %[1]s -- uname -a\n  berth shell %[1]s\n  berth rm %[1]s\n", ref)
	}
	return nil
}

// lookCommand returns the command that shows the new sandbox.
func lookCommand(want api.CreateSandbox) string {
	if ref := ui.First(want.ID, want.Name); ref != "" {
		return "berth get " + ref
	}
	return "berth ls"
}

func orNew(want api.CreateSandbox) string {
	return ui.Clean(ui.First(want.Name, want.ID, "a sandbox"))
}
