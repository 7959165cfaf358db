// Package project implements the project commands.
package project

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/process"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/sandbox"
)

type app struct{ *remote.Remote }

// Commands returns the commands of the package.
func Commands(r *remote.Remote) []*cobra.Command {
	a := &app{r}
	return []*cobra.Command{a.project()}
}

func (a *app) project() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:     "project",
		Aliases: []string{"projects", "p"},
		Short:   "Work with projects: named sandboxes of your program",
		Long: `A project has exactly one sandbox, which is created at the first request and then kept healthy. You
choose the id of a project, such as the name of a repository or the number of a customer.

No timer stops a project's sandbox unless its template has one. Commands for sandboxes, such as 'berth
shell', 'berth cp' and 'berth explain', take the id of a project's sandbox, which 'berth project get'
shows.`,
		Example: `  berth project ensure shop
  berth project exec shop -- uname -a
  berth project tool shop grep pattern=TODO
  berth project ls --status running`,
	}, a.projectEnsure(), a.projectGet(), a.projectLs(), a.projectExec(), a.projectTool(), a.projectTools(),
		a.projectHealth(), a.projectSync(), a.projectRestart(), a.projectRm(), a.projectCleanup())
}

const oneProject = "the ID of one project"

// statuses are the states of a sandbox in the project API, in small letters as in other lists.
var statuses = func() (words []string) {
	for _, state := range sandbox.States {
		if word := strings.ToLower(state.ProjectStatus()); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}()

// projectRef returns the id of the sandbox of an existing project.
func projectRef(ctx context.Context, c *remote.Connection, id string) (string, error) {
	p, err := c.Projects.Get(ctx, id)
	return p.SandboxID, c.ProjectHint(ctx, id, err)
}

// withProject returns a RunE for a command with one project as its argument.
func (a *app) withProject(do func(ctx context.Context, c *remote.Connection, id string) error) func(*cobra.Command, []string) error {
	return ui.Run(func(ctx context.Context, args []string) error {
		c, err := a.Connect()
		if err != nil {
			return err
		}
		return c.ProjectHint(ctx, args[0], do(ctx, c, args[0]))
	})
}

func (a *app) projectGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "get ID",
		Short:             "Show a project's sandbox",
		Long:              `Show a project's sandbox. It is neither created nor started.`,
		Example:           "  berth project get shop\n  berth project get shop --json",
		Args:              ui.Args(1, 1, oneProject),
		RunE:              a.withProject(a.runProjectGet),
		ValidArgsFunction: a.CompleteProjects(1),
	}
	a.QuietFlag(cmd, "the id of the sandbox")
	return a.Online(cmd)
}

func (a *app) runProjectGet(ctx context.Context, c *remote.Connection, id string) error {
	p, err := c.Projects.Get(ctx, id)
	if err != nil {
		return err
	}
	return a.showProject(p, func() error { return a.Details(a.describeProject(p)) })
}

// showProject prints the id with --quiet and the project with --json. Otherwise it calls people, which prints text.
func (a *app) showProject(p api.ProjectSandbox, people func() error) error {
	switch {
	case a.Quiet:
		return a.Line(p.SandboxID)
	case a.JSON:
		return ui.WriteJSON(a.Out, p)
	}
	return people()
}

// describeProject returns the details of a project's sandbox for text output.
func (a *app) describeProject(p api.ProjectSandbox) []ui.Detail {
	return append([]ui.Detail{
		{"project", p.ProjectID}, {"sandbox", p.SandboxID}, {"status", strings.ToLower(p.Status)}, {"error", p.ErrorMessage},
		{"template", p.Template}, {"driver", p.Driver}, {"profile", p.Profile},
		{"created", a.Time(p.CreatedAt)}, {"started", a.TimeOrDash(p.StartedAt)}, {"used", a.Time(p.LastAccessedAt)},
		{"checked", a.TimeOrDash(p.HealthCheckedAt)}, {"metadata", ui.Joined(p.Metadata)},
	}, a.SavedDetails(p.Saved)...)
}

func (a *app) projectRestart() *cobra.Command {
	return a.Online(&cobra.Command{
		Use:               "restart ID...",
		Short:             "Stop projects' sandboxes and start them again",
		Long:              `Stop the sandboxes of projects and start them again. All processes end; files stay.`,
		Example:           "  berth project restart shop",
		Args:              ui.Args(1, -1, "the ID of at least one project"),
		RunE:              ui.Run(a.runProjectRestart),
		ValidArgsFunction: a.CompleteProjects(-1),
	})
}

func (a *app) runProjectRestart(ctx context.Context, ids []string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return a.ForEach(ctx, remote.Action{Doing: "restarting", Done: "restarted", Look: "berth project get ", Do: func(ctx context.Context, id string) (any, error) {
		p, err := c.Projects.Restart(ctx, id)
		return p, c.ProjectHint(ctx, id, err)
	}}, ids)
}

func (a *app) projectExec() *cobra.Command {
	return process.ExecIn(a.Remote, projectRef, &cobra.Command{
		Use:   "exec ID [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command in a project's sandbox",
		Long: `Run a command in a project's sandbox and exit with its exit code. For everything else see 'berth exec
--help': input, terminals, signals and exit codes.

The project must exist; a stopped sandbox is started first.`,
		Example: `  berth project exec shop uname -a
  berth project exec shop -w src --timeout 2m -- go test ./...
  berth project exec shop -it -- bash`,
		Args:              ui.Args(1, -1, "the ID of one project and a command"),
		ValidArgsFunction: a.CompleteProjects(1),
	})
}
