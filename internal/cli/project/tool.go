package project

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) projectTool() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "tool ID TOOL [KEY=VALUE...|JSON|-]",
		Short: "Call a tool in a project's sandbox",
		Long: `Call a tool in a project's sandbox and print the answer that an agent would get. 'berth project tools'
lists the tools and their arguments. The project must exist; a project whose sandbox was terminated gets
a new one.

Arguments are KEY=VALUE pairs, one JSON object, or - for an object on stdin. In pairs, numbers, booleans
and lists are parsed as the tool's schema requires.

Exit codes: for bash the command's own; for other tools 0, or 1 if the tool failed; 125: Berth failed.`,
		Example: `  berth project tool shop bash command='make test'
  berth project tool shop read file_path=README.md limit=20
  berth project tool shop edit '{"file_path": "a.txt", "old_string": "one", "new_string": "two"}'
  jq -n '{file_path: "a.txt", content: "one\n"}' | berth project tool shop write -`,
		Args:              ui.Args(2, -1, "the ID of one project and the name of a tool"),
		ValidArgsFunction: a.completeTool,
	}
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		if timeout < 0 || timeout == 0 && cmd.Flags().Changed("timeout") {
			return ui.Usagef(cmd, "--timeout takes a time above zero, such as 30s")
		}
		return a.runProjectTool(ctx, args[0], api.ExecuteTool{ToolName: args[1], Timeout: timeout.Seconds()}, args[2:])
	})
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "`TIME` that it may take, such as 30s (default: the tool's own)")
	ui.Offer(cmd, "timeout", []string{"30s", "5m", "1h"})
	return a.Online(cmd)
}

func (a *app) runProjectTool(ctx context.Context, id string, want api.ExecuteTool, given []string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if _, err := c.Projects.Get(ctx, id); err != nil { // Execute would create a missing project, for example after a typo
		return c.ProjectHint(ctx, id, err)
	}
	if want.Arguments, err = a.toolArguments(ctx, c, id, want.ToolName, given); err != nil {
		return c.ProjectHint(ctx, id, err)
	}
	spin := a.Spin("using " + ui.Clean(want.ToolName))
	result, err := c.Projects.Execute(ctx, id, want)
	spin.Stop()
	switch {
	case remote.IsCode(err, api.CodeUnknownTool), remote.IsCode(err, api.CodeInvalidRequest):
		return ui.Hint(err, "'berth project tools "+id+"' lists the tools with their arguments.")
	case err != nil:
		return c.ProjectHint(ctx, id, err)
	}
	return a.showToolResult(result)
}

// showToolResult prints the result of a tool and exits with its exit code.
func (a *app) showToolResult(r api.ToolResult) (err error) {
	if a.JSON {
		err = ui.WriteJSON(a.Out, r)
	} else {
		err = a.printToolText(r)
	}
	switch {
	case err != nil:
		return err
	case r.ExitCode != nil && *r.ExitCode != 0:
		return ui.ExitCode(*r.ExitCode & 0xff)
	case r.IsError:
		return exitUnhealthy
	}
	return nil
}

// printToolText prints the result in the form that agents get. The error message of a file tool goes to stderr. The
// output of a command goes to stdout, even if the command failed.
func (a *app) printToolText(r api.ToolResult) error {
	to := a.Out
	if r.IsError && r.ExitCode == nil {
		to = a.Err
	}
	w, end := ui.SafeWriter(to)
	text := r.Text()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return end()
}

func (a *app) projectTools() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools ID",
		Short: "List the tools of a project's sandbox",
		Long: `List the tools of a project's sandbox with their arguments; those with a ? are optional. --json prints
their schemas, too. An MCP server whose tools are missing is reported on stderr, with the reason.`,
		Example:           "  berth project tools shop\n  berth project tools shop --json",
		Args:              ui.Args(1, 1, oneProject),
		RunE:              a.withProject(a.runProjectTools),
		ValidArgsFunction: a.CompleteProjects(1),
	}
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "names")
	return a.Online(cmd)
}

func (a *app) runProjectTools(ctx context.Context, c *remote.Connection, id string) error {
	list, err := c.Projects.ToolList(ctx, id)
	switch {
	case err != nil:
		return err
	case a.JSON && !a.Quiet:
		return ui.WriteJSON(a.Out, list)
	}
	if err := ui.Show(a.UI, ui.Items(list.Items, nil), ui.Listing[api.Tool]{
		Columns: []string{"TOOL", "WHAT IT DOES", "ARGUMENTS"},
		Row: func(t api.Tool) []ui.Cell {
			return []ui.Cell{ui.Plain(t.Name), ui.Plain(ui.OrDash(shortDescription(t.Description))), ui.Plain(ui.OrDash(schemaOf(t).names()))}
		},
		ID:    func(t api.Tool) string { return t.Name },
		Empty: "It has no tools.",
	}); err != nil {
		return err
	}
	for _, s := range list.Servers {
		if s.Problem != "" { // the problem may contain several lines from the MCP server
			a.Warnf("server %s: %s", ui.Clean(s.Name), ui.Clean(strings.Join(strings.Fields(s.Problem), " ")))
		}
	}
	return nil
}

const maxDescription = 70

// shortDescription returns the beginning of a description, up to the first ". " or ": ", cut to fit into a table.
func shortDescription(text string) string {
	for _, end := range []string{". ", ": "} {
		text, _, _ = strings.Cut(text, end)
	}
	return ui.Truncate(strings.TrimSuffix(text, "."), maxDescription)
}

// completeTool completes a project, then its tools, then the arguments of the named tool.
func (a *app) completeTool(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.CompleteProjects(1)(cmd, args, typed)
	case 1:
		return remote.Complete(cmd.Context(), a.Remote, args, tools(args[0]), func(t api.Tool) remote.Candidate {
			return remote.Candidate{Word: t.Name, About: shortDescription(t.Description)}
		})
	}
	fits, directive := remote.Complete(cmd.Context(), a.Remote, args, parameters(args[0], args[1]), func(p parameter) remote.Candidate {
		return remote.Candidate{Word: p.name + "=", About: p.Description}
	})
	return fits, directive | cobra.ShellCompDirectiveNoSpace
}
