package project

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) projectEnsure() *cobra.Command {
	var want remote.CreateFlags
	var many bool
	cmd := &cobra.Command{
		Use:     "ensure ID",
		Aliases: []string{"create"},
		Short:   "Make sure that a project's sandbox runs",
		Long: `Make sure that a project's sandbox runs: create it if the project has none, start it if it is stopped,
repair it if it is unhealthy. The command can be repeated and run concurrently: a project never has two
sandboxes.

Another template or driver than the sandbox has is refused. Exits with 124 if it does not run within
--timeout.`,
		Example: `  berth project ensure shop
  berth project ensure shop --template web --profile lite -m team=blue
  berth shell $(berth project ensure shop -q)`,
		Args: ui.Args(1, 1, oneProject),
		RunE: a.withProject(func(ctx context.Context, c *remote.Connection, id string) error {
			return a.runProjectEnsure(ctx, c, id, want, many)
		}),
		ValidArgsFunction: a.CompleteProjects(1),
	}
	a.CreateFlags(a.Online(cmd), &want)
	remote.MassDeleteFlag(cmd, &many)
	a.QuietFlag(cmd, "the id of the sandbox")
	return cmd
}

func (a *app) runProjectEnsure(ctx context.Context, c *remote.Connection, id string, m remote.CreateFlags, massDelete bool) (err error) {
	want := api.EnsureProject{Template: m.Template, Driver: m.Driver, Profile: m.Profile}
	if want.Env, want.Metadata, err = m.Values(a.Remote); err != nil {
		return err
	}
	var opts []client.StartOption
	if massDelete {
		opts = append(opts, client.AllowMassDelete())
	}
	start := a.Now()
	var p api.ProjectSandbox
	var made bool
	err = a.Await(ctx, remote.Wait{
		What: "ensuring " + ui.Clean(id), Look: "berth project get " + id, Most: m.Timeout,
		State: func(ctx context.Context) (string, error) {
			p, err := c.Projects.Get(ctx, id)
			return strings.ToLower(p.Status), err
		},
	}, func(ctx context.Context) error {
		p, made, err = c.Projects.Ensure(ctx, id, want, opts...)
		return err
	})
	if err != nil {
		return err
	}
	return a.showProject(p, func() error { return a.showEnsured(p, made, a.Now().Sub(start)) })
}

func (a *app) showEnsured(p api.ProjectSandbox, made bool, took time.Duration) error {
	id := ui.Clean(p.ProjectID)
	if err := a.PrintCreated(id, strings.ToLower(p.Status), made, took); err != nil {
		return err
	}
	if err := a.Details([]ui.Detail{{"sandbox", p.SandboxID}, {"driver", p.Driver}, {"template", p.Template}}); err != nil {
		return err
	}
	if a.Out.TTY {
		fmt.Fprintf(a.Out, "\nNext:\n  berth project exec %[1]s -- uname -a\n  berth project tools %[1]s\n  berth project rm %[1]s\n", id)
	}
	return nil
}
