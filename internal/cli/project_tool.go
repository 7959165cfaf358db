package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) projectTool() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "tool ID TOOL [KEY=VALUE...|JSON|-]",
		Short: "Use a tool in a project's sandbox, as an agent does",
		Long: `Use a tool in a project's sandbox and print what an agent would be told. 'berth project tools' lists the
tools and their arguments. A project without a sandbox gets one.

Arguments are KEY=VALUE pairs, where numbers, switches and lists are read as the tool asks for them,
or one JSON object, or - for one on stdin.

Exit codes: the command's own for bash; else 0, or 1 if the tool could not do it; 125 Berth could not.`,
		Example: `  berth project tool shop bash command='make test'
  berth project tool shop read file_path=README.md limit=20
  berth project tool shop edit '{"file_path": "a.txt", "old_string": "one", "new_string": "two"}'
  jq -n '{file_path: "a.txt", content: "one\n"}' | berth project tool shop write -`,
		Args:              takes(2, -1, "the ID of one project and the name of a tool"),
		ValidArgsFunction: f.completeTool,
	}
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		if timeout < 0 || timeout == 0 && cmd.Flags().Changed("timeout") {
			return usagef(cmd, "--timeout takes a time above zero, such as 30s")
		}
		return f.runProjectTool(ctx, args[0], api.ExecuteTool{ToolName: args[1], Timeout: timeout.Seconds()}, args[2:])
	})
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "`TIME` that it may take, such as 30s (default: the tool's own)")
	offer(cmd, "timeout", []string{"30s", "5m", "1h"})
	return f.online(cmd)
}

func (f *frame) runProjectTool(ctx context.Context, id string, want api.ExecuteTool, given []string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if want.Arguments, err = f.toolArguments(ctx, c, id, want.ToolName, given); err != nil {
		return c.aboutProject(ctx, id, err)
	}
	spin := f.spin("using " + clean(want.ToolName))
	result, err := c.Projects.Execute(ctx, id, want)
	spin.stop()
	switch {
	case isCode(err, api.CodeUnknownTool), isCode(err, api.CodeInvalidRequest):
		return &hinted{err, "'berth project tools " + id + "' lists the tools with their arguments."}
	case err != nil:
		return c.aboutProject(ctx, id, err)
	}
	return f.showToolResult(result)
}

// showToolResult prints what the tool answered and ends as it did.
func (f *frame) showToolResult(r api.ToolResult) (err error) {
	if f.json {
		err = writeJSON(f.out, r)
	} else {
		err = f.sayToolText(r)
	}
	switch {
	case err != nil:
		return err
	case r.ExitCode != nil && *r.ExitCode != 0:
		return exited(*r.ExitCode & 0xff)
	case r.IsError:
		return exitUnfit
	}
	return nil
}

// sayToolText is the answer as an agent reads it. That a file tool failed is no result, what a command
// wrote before it failed is.
func (f *frame) sayToolText(r api.ToolResult) error {
	to := f.out
	if r.IsError && r.ExitCode == nil {
		to = f.err
	}
	w, end := shownOn(to)
	text := r.Text()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return end()
}

func (f *frame) projectTools() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "tools ID",
		Short:             "List the tools that a project's sandbox has",
		Long:              "List the tools that a project's sandbox has, with their arguments; those with a ? may be left out. With\n--json their schemas are shown, too. An MCP server whose tools are missing is named on stderr, with the reason.",
		Example:           "  berth project tools shop\n  berth project tools shop --json",
		Args:              takes(1, 1, oneProject),
		RunE:              f.onProject(f.runProjectTools),
		ValidArgsFunction: f.completeProjects(1),
	}
	f.quietly(cmd, "names")
	return f.online(cmd)
}

func (f *frame) runProjectTools(ctx context.Context, c *connection, id string) error {
	list, err := c.Projects.ToolList(ctx, id)
	switch {
	case err != nil:
		return err
	case f.json && !f.quiet:
		return writeJSON(f.out, list)
	}
	if err := show(f, these(list.Items, nil), listing[api.Tool]{
		columns: []string{"TOOL", "WHAT IT DOES", "ARGUMENTS"},
		row: func(t api.Tool) []cell {
			return []cell{plain(t.Name), plain(orDash(gist(t.Description))), plain(orDash(schemaOf(t).names()))}
		},
		id:    func(t api.Tool) string { return t.Name },
		empty: "It has no tools.",
	}); err != nil {
		return err
	}
	for _, s := range list.Servers {
		if s.Problem != "" { // it may end with lines of the server's own
			f.warnf("server %s: %s", clean(s.Name), clean(strings.Join(strings.Fields(s.Problem), " ")))
		}
	}
	return nil
}

const mostGist = 70

// gist is as much of a description as a line has room for: what stands before its details.
func gist(text string) string {
	for _, end := range []string{". ", ": "} {
		text, _, _ = strings.Cut(text, end)
	}
	return abridged(strings.TrimSuffix(text, "."), mostGist)
}

// completeTool offers a project, then its tools, then the arguments of the one that is named.
func (f *frame) completeTool(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return f.completeProjects(1)(cmd, args, typed)
	case 1:
		return complete(cmd.Context(), f, args, tools(args[0]), func(t api.Tool) candidate {
			return candidate{t.Name, gist(t.Description)}
		})
	}
	fits, directive := complete(cmd.Context(), f, args, parameters(args[0], args[1]), func(p parameter) candidate {
		return candidate{p.name + "=", p.Description}
	})
	return fits, directive | cobra.ShellCompDirectiveNoSpace
}
