// Package template implements the template commands.
package template

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
)

type app struct{ *remote.Remote }

// Commands returns the commands of the package.
func Commands(r *remote.Remote) []*cobra.Command {
	a := &app{r}
	return []*cobra.Command{a.template()}
}

func (a *app) template() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:     "template",
		Aliases: []string{"templates"},
		Short:   "Manage templates, bases and agents",
		Long: `Manage the templates of sandboxes. A template has a name, and sets the driver, base, size, environment,
network and timers of its sandboxes. Templates are [templates.NAME] sections of the server's
configuration; 'default' and 'none' always exist.`,
		Example: "  berth template ls\n  berth template check berth.toml\n  berth template build-base debian\n  berth template install claude_code",
	}, a.templateLs(), a.templateShow(), a.templateCheck(), a.templateBuildBase(), a.templateBases(), a.templateInstall(), a.templateTry())
}

func (a *app) templateLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the server's templates",
		Long:    `List the server's templates. A * marks the default one.`,
		Example: "  berth template ls\n  berth template ls --json",
		Args:    ui.Args(0, 0, ""),
		RunE:    ui.Run(func(ctx context.Context, _ []string) error { return a.runTemplateLs(ctx) }),
	}
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "names")
	return a.Online(cmd)
}

func (a *app) runTemplateLs(ctx context.Context) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return c.Explain(ui.Show(a.UI, c.Templates.List(ctx), ui.Listing[api.Template]{
		Columns: []string{"NAME", "DRIVER", "BASE", "PROFILE", "SIZE", "EGRESS", "DESCRIPTION"},
		Drop:    []string{"BASE", "PROFILE", "EGRESS", "SIZE"},
		Row: func(t api.Template) []ui.Cell {
			name := ui.Cell{Text: t.Name}
			if t.Default {
				name = ui.Coloured(t.Name+" *", ui.Green)
			}
			return []ui.Cell{name, ui.Plain(t.Driver), ui.Plain(t.Base), ui.Plain(t.Profile), ui.Plain(templateSize(t.Resources)),
				ui.Plain(egressSummary(t.Egress)), ui.Plain(ui.OrDash(t.Description))}
		},
		ID: func(t api.Template) string { return t.Name },
	}))
}

func templateSize(r api.TemplateResources) string {
	return fmt.Sprintf("%s cpu, %s, %s disk", strconv.FormatFloat(r.CPU, 'g', 4, 64), config.FormatSize(r.MemoryBytes), config.FormatSize(r.DiskBytes))
}

// egressSummary returns the rule, or the number of rules.
func egressSummary(rules []string) string {
	switch {
	case len(rules) == 0:
		return "none"
	case len(rules) == 1:
		return rules[0]
	}
	return ui.Plural(len(rules), "rule", "rules")
}

func (a *app) templateShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show NAME",
		Aliases: []string{"get"},
		Short:   "Show one template",
		Long: `Show one template of the server. Values of its environment are never shown; the server's paths and
addresses of its mounts and services only to admins of the tenant 'default'.`,
		Example:           "  berth template show default\n  berth template show default --json",
		Args:              ui.Args(1, 1, "the NAME of one template; 'berth template ls' shows them"),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runTemplateShow(ctx, args[0]) }),
		ValidArgsFunction: a.completeTemplates,
	}
	return a.Online(cmd)
}

func (a *app) runTemplateShow(ctx context.Context, name string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	t, err := c.Templates.Get(ctx, name)
	switch {
	case err != nil:
		return c.Explain(err)
	case a.JSON:
		return ui.WriteJSON(a.Out, t)
	}
	return a.Details(describeTemplate(t))
}

// describeTemplate returns the details of a template for text output.
func describeTemplate(t api.Template) []ui.Detail {
	lines := []ui.Detail{
		{"name", t.Name}, {"description", t.Description}, {"extends", t.Extends}, {"tenants", strings.Join(t.Tenants, ", ")},
		{"driver", t.Driver}, {"base", t.Base}, {"user", t.User}, {"profile", t.Profile},
		{"size", templateSize(t.Resources) + " (" + t.Resources.Disk + ")"}, {"processes", number(t.Resources.Processes)},
		{"env", strings.Join(t.Env, ", ")}, {"env from", strings.Join(t.EnvFrom, ", ")}, {"key", keyState(t)}, {"egress", ui.First(strings.Join(t.Egress, ", "), "none")},
	}
	for _, m := range t.Mounts {
		lines = append(lines, ui.Detail{"mount", arrow(m.Target, m.Source)})
	}
	for _, s := range t.Services {
		lines = append(lines, ui.Detail{"service", arrow(s.Listen, s.Upstream)})
	}
	lines = append(lines, ui.Detail{"timers", ui.Joined(t.Timers)},
		ui.Detail{"image", t.Image}, ui.Detail{"runtime", t.Runtime}, ui.Detail{"agent", t.Agent}, ui.Detail{"command", strings.Join(t.AgentCommand, " ")},
		ui.Detail{"model", t.Model}, ui.Detail{"models", strings.Join(t.Models, ", ")}, ui.Detail{"permissions", t.PermissionMode},
		ui.Detail{"volume", t.Volume}, ui.Detail{"s3 bucket", t.S3BucketName}, ui.Detail{"s3 prefix", t.S3KeyPrefix}, ui.Detail{"layout", t.Layout}, ui.Detail{"versions kept", versionsKept(t)},
		ui.Detail{"unreachable", unreachable(t)}, ui.Detail{"turns", number(int64(t.Turns))}, ui.Detail{"mcp servers", strings.Join(t.MCPServers, ", ")})
	for _, h := range t.Hooks {
		lines = append(lines, ui.Detail{"hook", h.Phase + ": " + h.Name})
	}
	if t.Default {
		lines = append(lines, ui.Detail{"default", "yes: sandboxes that name no template have this one"})
	}
	return lines
}

// keyState says whether the template's agent has its key, or returns the empty string if it needs none.
func keyState(t api.Template) string {
	switch {
	case t.MissingKey != "":
		return "missing; berth secret set " + t.MissingKey
	case len(t.KeyEnv) == 0:
		return ""
	}
	return "set"
}

// versionsKept returns the template's policy for versions, or the empty string if the server's policy applies.
func versionsKept(t api.Template) string {
	if t.KeepLast == nil && t.KeepDaily == nil {
		return ""
	}
	last, daily := 0, 0
	if t.KeepLast != nil {
		last = *t.KeepLast
	}
	if t.KeepDaily != nil {
		daily = *t.KeepDaily
	}
	if last == 0 && daily == 0 {
		return "all"
	}
	return fmt.Sprintf("the last %d, and one a day for %d days", last, daily)
}

// unreachable returns the action for an unreachable instance, and the time before it.
func unreachable(t api.Template) string {
	if t.UnreachableAfter == "" {
		return t.Unreachable
	}
	return ui.First(t.Unreachable, "wait") + " after " + t.UnreachableAfter
}

func arrow(inside, outside string) string {
	if outside == "" {
		return inside
	}
	return inside + " → " + outside
}

// number formats n. It returns the empty string for zero.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func (a *app) completeTemplates(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := func(ctx context.Context, c *remote.Connection) iter.Seq2[api.Template, error] {
		return c.Templates.List(ctx)
	}
	return remote.Complete(cmd.Context(), a.Remote, args, list, func(t api.Template) remote.Candidate { return remote.Candidate{Word: t.Name, About: t.Description} })
}
