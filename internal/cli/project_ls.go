package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

func (f *frame) projectLs() *cobra.Command {
	var most limit
	var status string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List projects and how their sandboxes are",
		Long:    "List the projects that your key may see and how their sandboxes are.",
		Example: "  berth project ls\n  berth project ls --status RUNNING --json\n  berth project ls -q",
		Args:    takes(0, 0, ""),
		RunE: run(func(ctx context.Context, _ []string) error {
			return f.runProjectLs(ctx, client.ProjectFilter{Status: strings.ToUpper(status)}, most)
		}),
	}
	limited(f.online(cmd), &most)
	cmd.Flags().StringVar(&status, "status", "", "only those with this `STATUS`, such as RUNNING")
	f.quietly(cmd, "ids of projects")
	offer(cmd, "status", statuses)
	return cmd
}

func (f *frame) runProjectLs(ctx context.Context, filter client.ProjectFilter, most limit) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	empty := "No projects yet. 'berth project ensure ID' makes one."
	if filter.Status != "" {
		empty = "No project is like that. 'berth project ls' alone lists all."
	}
	return c.explain(show(f, c.Projects.List(ctx, filter), listing[api.ProjectSandbox]{
		columns: []string{"PROJECT", "STATUS", "SANDBOX", "DRIVER", "TEMPLATE", "CREATED", "USED"},
		row: func(p api.ProjectSandbox) []cell {
			return []cell{plain(p.ProjectID), {p.Status, stateColour(p.Status)}, plain(p.SandboxID), plain(p.Driver),
				plain(p.Template), plain(f.when(p.CreatedAt)), plain(f.when(p.LastAccessedAt))}
		},
		id:    func(p api.ProjectSandbox) string { return p.ProjectID },
		empty: empty,
		limit: int(most),
	}))
}
