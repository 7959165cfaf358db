package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

func (f *frame) project() *cobra.Command {
	return group(&cobra.Command{
		Use:     "project",
		Aliases: []string{"projects", "p"},
		Short:   "Projects, each with one sandbox of its own",
		Long: `Projects, each with exactly one sandbox, made when it is first asked for and then kept healthy. The id
of a project is one of your own, such as the name of a repository or the number of a customer.

No timer stops a project's sandbox unless its template has one. Whatever takes a sandbox takes the id
of a project's, too, which 'berth project get' shows: 'berth shell', 'berth cp', 'berth explain' …`,
		Example: `  berth project ensure shop
  berth project exec shop -- uname -a
  berth project tool shop grep pattern=TODO
  berth project ls --status RUNNING`,
	}, f.projectEnsure(), f.projectGet(), f.projectLs(), f.projectExec(), f.projectTool(), f.projectTools(),
		f.projectHealth(), f.projectSync(), f.projectRestart(), f.projectRm(), f.projectCleanup())
}

const oneProject = "the ID of one project"

// statuses are the words of the project API for where a sandbox is.
var statuses = func() (words []string) {
	for _, state := range sandbox.States {
		if word := state.ProjectStatus(); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}()

// ofProject finds the sandbox of a project that is there already.
func ofProject(ctx context.Context, c *connection, id string) (string, error) {
	p, err := c.Projects.Get(ctx, id)
	return p.SandboxID, c.aboutProject(ctx, id, err)
}

// onProject runs a command that takes one project.
func (f *frame) onProject(do func(ctx context.Context, c *connection, id string) error) func(*cobra.Command, []string) error {
	return run(func(ctx context.Context, args []string) error {
		c, err := f.connect()
		if err != nil {
			return err
		}
		return c.aboutProject(ctx, args[0], do(ctx, c, args[0]))
	})
}

func (f *frame) projectGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "get ID",
		Short:             "Show a project's sandbox",
		Long:              "Show everything about a project's sandbox, without making or starting it.",
		Example:           "  berth project get shop\n  berth project get shop --json",
		Args:              takes(1, 1, oneProject),
		RunE:              f.onProject(f.runProjectGet),
		ValidArgsFunction: f.completeProjects(1),
	}
	f.quietly(cmd, "the id of the sandbox")
	return f.online(cmd)
}

func (f *frame) runProjectGet(ctx context.Context, c *connection, id string) error {
	p, err := c.Projects.Get(ctx, id)
	if err != nil {
		return err
	}
	return f.showProject(p, func() error { return f.details(f.describeProject(p)) })
}

// showProject prints the id of the sandbox, the document, or what people read.
func (f *frame) showProject(p api.ProjectSandbox, people func() error) error {
	switch {
	case f.quiet:
		return f.line(p.SandboxID)
	case f.json:
		return writeJSON(f.out, p)
	}
	return people()
}

// describeProject is a project's sandbox as the lines a person reads.
func (f *frame) describeProject(p api.ProjectSandbox) []detail {
	return append([]detail{
		{"project", p.ProjectID}, {"sandbox", p.SandboxID}, {"status", p.Status}, {"error", p.ErrorMessage},
		{"template", p.Template}, {"driver", p.Driver}, {"profile", p.Profile},
		{"created", f.when(p.CreatedAt)}, {"started", f.whenever(p.StartedAt)}, {"used", f.when(p.LastAccessedAt)},
		{"checked", f.whenever(p.HealthCheckedAt)}, {"metadata", joined(p.Metadata)},
	}, f.saved(p.Saved)...)
}
