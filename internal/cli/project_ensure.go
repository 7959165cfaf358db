package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

func (f *frame) projectEnsure() *cobra.Command {
	var want making
	var many bool
	cmd := &cobra.Command{
		Use:     "ensure ID",
		Aliases: []string{"create"},
		Short:   "Make sure that a project's sandbox runs",
		Long: `Make sure that a project's sandbox runs: it is made if the project has none, started if it is stopped,
and mended if it is ill. Asking again is always safe, from anywhere, at the same time: a project has
one sandbox, never two.

Asking with another template or driver than the sandbox has is refused. Ends with 124 if it does not
run within --timeout.`,
		Example: `  berth project ensure shop
  berth project ensure shop --template web --profile lite -m team=blue
  berth shell $(berth project ensure shop -q)`,
		Args: takes(1, 1, oneProject),
		RunE: f.onProject(func(ctx context.Context, c *connection, id string) error {
			return f.runProjectEnsure(ctx, c, id, want, many)
		}),
		ValidArgsFunction: f.completeProjects(1),
	}
	f.makingFlags(f.online(cmd), &want)
	massDelete(cmd, &many)
	f.quietly(cmd, "the id of the sandbox")
	return cmd
}

func (f *frame) runProjectEnsure(ctx context.Context, c *connection, id string, m making, massDelete bool) (err error) {
	want := api.EnsureProject{Template: m.template, Driver: m.driver, Profile: m.profile}
	if want.Env, want.Metadata, err = m.values(f); err != nil {
		return err
	}
	var opts []client.StartOption
	if massDelete {
		opts = append(opts, client.AllowMassDelete())
	}
	start := f.now()
	var p api.ProjectSandbox
	var made bool
	err = f.awaited(ctx, wait{
		what: "ensuring " + clean(id), look: "berth project get " + id, most: m.timeout,
		state: func(ctx context.Context) (string, error) {
			p, err := c.Projects.Get(ctx, id)
			return p.Status, err
		},
	}, func(ctx context.Context) error {
		p, made, err = c.Projects.Ensure(ctx, id, want, opts...)
		return err
	})
	if err != nil {
		return err
	}
	return f.showProject(p, func() error { return f.showEnsured(p, made, f.now().Sub(start)) })
}

func (f *frame) showEnsured(p api.ProjectSandbox, made bool, took time.Duration) error {
	id := clean(p.ProjectID)
	if err := f.sayMade(id, p.Status, made, took); err != nil {
		return err
	}
	if err := f.details([]detail{{"sandbox", p.SandboxID}, {"driver", p.Driver}, {"template", p.Template}}); err != nil {
		return err
	}
	if f.out.tty {
		fmt.Fprintf(f.out, "\nNext:\n  berth project exec %[1]s -- uname -a\n  berth project tools %[1]s\n  berth project rm %[1]s\n", id)
	}
	return nil
}
