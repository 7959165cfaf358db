package project

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) projectLs() *cobra.Command {
	var most ui.Limit
	var status string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List projects",
		Long:    `List the projects that your key may see, with the state of their sandboxes.`,
		Example: "  berth project ls\n  berth project ls --status running --json\n  berth project ls -q",
		Args:    ui.Args(0, 0, ""),
		RunE: ui.Run(func(ctx context.Context, _ []string) error {
			return a.runProjectLs(ctx, client.ProjectFilter{Status: strings.ToUpper(status)}, most)
		}),
	}
	a.WideFlag(cmd)
	ui.LimitFlag(a.Online(cmd), &most)
	cmd.Flags().StringVar(&status, "status", "", "only those with this `STATUS`, such as running")
	a.QuietFlag(cmd, "ids of projects")
	ui.Offer(cmd, "status", statuses)
	return cmd
}

func (a *app) runProjectLs(ctx context.Context, filter client.ProjectFilter, most ui.Limit) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	empty := "No projects yet. 'berth project ensure ID' makes one."
	if filter.Status != "" {
		empty = "No project is like that. 'berth project ls' alone lists all."
	}
	return c.Explain(ui.Show(a.UI, c.Projects.List(ctx, filter), ui.Listing[api.ProjectSandbox]{
		Columns: []string{"PROJECT", "STATUS", "SANDBOX", "DRIVER", "TEMPLATE", "CREATED", "USED"},
		Drop:    []string{"DRIVER", "CREATED", "TEMPLATE", "SANDBOX"},
		Row: func(p api.ProjectSandbox) []ui.Cell {
			return []ui.Cell{ui.Plain(p.ProjectID), ui.Coloured(strings.ToLower(p.Status), ui.StateColour(p.Status)), ui.Plain(a.ShortID(p.SandboxID)), ui.Plain(p.Driver),
				ui.Plain(p.Template), ui.Plain(a.Time(p.CreatedAt)), ui.Plain(a.Time(p.LastAccessedAt))}
		},
		ID:    func(p api.ProjectSandbox) string { return p.ProjectID },
		Empty: empty,
		Limit: int(most),
	}))
}
