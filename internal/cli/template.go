package cli

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
)

func (f *frame) template() *cobra.Command {
	return group(&cobra.Command{
		Use:     "template",
		Aliases: []string{"templates"},
		Short:   "See what sandboxes are made of; check templates, build bases, install agents",
		Long: `See what sandboxes are made of. A template has a name and says which driver, base, size, environment,
network and timers its sandboxes have. Templates are [templates.NAME] sections of the server's
configuration; 'default' and 'none' are always there.`,
		Example: "  berth template ls\n  berth template check berth.toml\n  berth template build-base debian\n  berth template install claude_code",
	}, f.templateLs(), f.templateShow(), f.templateCheck(), f.templateBuildBase(), f.templateBases(), f.templateInstall())
}

func (f *frame) templateLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the server's templates",
		Long:    "List the templates that sandboxes of the server may have. The one of sandboxes that name none is marked with a *.",
		Example: "  berth template ls\n  berth template ls --json",
		Args:    takes(0, 0, ""),
		RunE:    run(func(ctx context.Context, _ []string) error { return f.runTemplateLs(ctx) }),
	}
	f.quietly(cmd, "names")
	return f.online(cmd)
}

func (f *frame) runTemplateLs(ctx context.Context) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return c.explain(show(f, c.Templates.List(ctx), listing[api.Template]{
		columns: []string{"NAME", "DRIVER", "BASE", "PROFILE", "SIZE", "EGRESS", "DESCRIPTION"},
		row: func(t api.Template) []cell {
			name := cell{text: t.Name}
			if t.Default {
				name = cell{t.Name + " *", green}
			}
			return []cell{name, plain(t.Driver), plain(t.Base), plain(t.Profile), plain(templateSize(t.Resources)),
				plain(egressInShort(t.Egress)), plain(orDash(t.Description))}
		},
		id: func(t api.Template) string { return t.Name },
	}))
}

func templateSize(r api.TemplateResources) string {
	return fmt.Sprintf("%s cpu, %s, %s disk", strconv.FormatFloat(r.CPU, 'g', 4, 64), config.FormatSize(r.MemoryBytes), config.FormatSize(r.DiskBytes))
}

// egressInShort is the way out in one word.
func egressInShort(rules []string) string {
	switch {
	case len(rules) == 0:
		return "none"
	case len(rules) == 1:
		return rules[0]
	}
	return plural(len(rules), "rule", "rules")
}

func (f *frame) templateShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show NAME",
		Aliases: []string{"get"},
		Short:   "Show one template",
		Long: `Show everything about one template of the server. Values of its environment are never shown; where its
mounts and services lead to on the server, only to admins of the tenant 'default'.`,
		Example:           "  berth template show default\n  berth template show default --json",
		Args:              takes(1, 1, "the NAME of one template; 'berth template ls' shows them"),
		RunE:              run(func(ctx context.Context, args []string) error { return f.runTemplateShow(ctx, args[0]) }),
		ValidArgsFunction: f.completeTemplates,
	}
	return f.online(cmd)
}

func (f *frame) runTemplateShow(ctx context.Context, name string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	t, err := c.Templates.Get(ctx, name)
	switch {
	case err != nil:
		return c.explain(err)
	case f.json:
		return writeJSON(f.out, t)
	}
	return f.details(describeTemplate(t))
}

// describeTemplate is a template as the lines a person reads, missing values left out.
func describeTemplate(t api.Template) []detail {
	lines := []detail{
		{"name", t.Name}, {"description", t.Description}, {"extends", t.Extends},
		{"driver", t.Driver}, {"base", t.Base}, {"user", t.User}, {"profile", t.Profile},
		{"size", templateSize(t.Resources) + " (" + t.Resources.Disk + ")"}, {"processes", number(t.Resources.Processes)},
		{"env", strings.Join(t.Env, ", ")}, {"egress", first(strings.Join(t.Egress, ", "), "none")},
	}
	for _, m := range t.Mounts {
		lines = append(lines, detail{"mount", arrow(m.Target, m.Source)})
	}
	for _, s := range t.Services {
		lines = append(lines, detail{"service", arrow(s.Listen, s.Upstream)})
	}
	lines = append(lines, detail{"timers", joined(t.Timers)},
		detail{"image", t.Image}, detail{"runtime", t.Runtime}, detail{"command", strings.Join(t.AgentCommand, " ")},
		detail{"volume", t.Volume}, detail{"s3 bucket", t.S3BucketName}, detail{"s3 prefix", t.S3KeyPrefix}, detail{"layout", t.Layout}, detail{"versions kept", versionsKept(t)},
		detail{"unreachable", unreachable(t)}, detail{"turns", number(int64(t.Turns))}, detail{"mcp servers", strings.Join(t.MCPServers, ", ")})
	for _, h := range t.Hooks {
		lines = append(lines, detail{"hook", h.Phase + ": " + h.Name})
	}
	if t.Default {
		lines = append(lines, detail{"default", "yes: sandboxes that name no template have this one"})
	}
	return lines
}

// versionsKept is the template's own policy of versions, empty if the server's applies.
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

// unreachable is what is done about an instance that nobody can reach, and after how long.
func unreachable(t api.Template) string {
	if t.UnreachableAfter == "" {
		return t.Unreachable
	}
	return first(t.Unreachable, "wait") + " after " + t.UnreachableAfter
}

func arrow(inside, outside string) string {
	if outside == "" {
		return inside
	}
	return inside + " → " + outside
}

// number is a number as text; nothing for zero.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func (f *frame) completeTemplates(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := func(ctx context.Context, c *connection) iter.Seq2[api.Template, error] { return c.Templates.List(ctx) }
	return complete(cmd.Context(), f, args, list, func(t api.Template) candidate { return candidate{t.Name, t.Description} })
}
