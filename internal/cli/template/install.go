package template

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/template/program"
)

func (a *app) templateInstall() *cobra.Command {
	var o program.Options
	cmd := &cobra.Command{
		Use:   "install NAME",
		Short: "Install the agent that a template runs",
		Long: `Install the agent that the template NAME runs, with npm, into the data directory of a server on this
machine. Sandboxes see it, read only; those that run have it at their next turn, and turns that run end with
the version that they began with. Without --version it is the version that Berth was tested with, with
exactly the packages that it was tested with. Another version is installed only if it runs here; until then
the installed one stays. An installed version is not installed again without --force.

` + catalog(),
		Example: `  berth template install claude_code
  berth template install claude_code --version latest
  berth template install claude_code --data-dir /var/lib/berth`,
		Args: ui.Args(1, 1, "the NAME of one template: "+strings.Join(program.Names(), ", ")),
	}
	load := a.Settings(cmd)
	cmd.Flags().StringVar(&o.Version, "version", "", "`VERSION` to install (default: the one that Berth was tested with)")
	cmd.Flags().BoolVar(&o.Force, "force", false, "install it anew although it is there")
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		for _, p := range program.All {
			if len(args) == 0 {
				names = append(names, cobra.CompletionWithDesc(p.Name, p.Title))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) (err error) {
		cfg, err := load()
		if err != nil {
			return err
		}
		if o.Program, err = program.Find(args[0]); err != nil {
			return err
		}
		if err := program.Prepare(cfg.DataDir); err != nil {
			return fmt.Errorf("make directory for programs: %w", err)
		}
		for _, name := range o.With {
			other := program.Options{Dir: program.Dir(cfg.DataDir, name)}
			if other.Program, err = program.Find(name); err != nil {
				return err
			}
			if err := a.runTemplateInstall(ctx, other); err != nil {
				return err
			}
		}
		o.Dir = program.Dir(cfg.DataDir, o.Name)
		return a.runTemplateInstall(ctx, o)
	})
	return cmd
}

// catalog lists the programs for the help page.
func catalog() string {
	var lines strings.Builder
	for _, p := range program.All {
		version := p.Tested()
		if p.Vendor != "" {
			version = "as this machine has it (not tested)"
		}
		fmt.Fprintf(&lines, "  %-14s %s %s, about %s\n", p.Name, p.Title, version, p.Size)
	}
	return strings.TrimSuffix(lines.String(), "\n")
}

func (a *app) runTemplateInstall(ctx context.Context, o program.Options) error {
	start := a.Now()
	spin := a.Spin("installing " + o.Title)
	last := ""
	o.Progress = func(what string, bytes int64) {
		if spin == nil {
			if what != last {
				a.Notef("%s", ui.Clean(what))
			}
			last = what
			return
		}
		if bytes > 0 {
			what += ": " + config.FormatSize(bytes>>20<<20)
		}
		spin.Phase(ui.Clean(what))
	}
	got, err := program.Install(ctx, o)
	spin.Stop()
	switch {
	case err != nil:
		return err
	case a.JSON:
		return ui.WriteJSON(a.Out, got)
	}
	how := "was there already; --force installs it anew"
	if got.Made {
		how = "installed in " + ui.Brief(a.Now().Sub(start))
	}
	_, err = fmt.Fprintf(a.Out, "%s %s (%s): %s\n", a.Out.Paint(ui.Bold, o.Title), ui.Clean(got.Version), how, ui.Clean(got.Path))
	return err
}
