package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/template/program"
)

func (f *frame) templateInstall() *cobra.Command {
	var o program.Options
	cmd := &cobra.Command{
		Use:   "install NAME",
		Short: "Install the agent that a template runs",
		Long: `Install the agent that the template NAME runs, with npm, into the data directory of a server on this
machine. Sandboxes see it, read only; those that run have it at their next turn. Without --version it is
the version that Berth was tested with. What is there already is not installed again without --force.

claude_code: Claude Code, about 250 MB.`,
		Example: `  berth template install claude_code
  berth template install claude_code --version latest
  berth template install claude_code --data-dir /var/lib/berth`,
		Args: takes(1, 1, "the NAME of one template: claude_code"),
	}
	load := f.configured(cmd)
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
	cmd.RunE = run(func(ctx context.Context, args []string) (err error) {
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
		o.Dir = program.Dir(cfg.DataDir, o.Name)
		return f.runTemplateInstall(ctx, o)
	})
	return cmd
}

func (f *frame) runTemplateInstall(ctx context.Context, o program.Options) error {
	start := f.now()
	spin := f.spin("installing " + o.Title)
	last := ""
	o.Progress = func(what string, bytes int64) {
		if spin == nil {
			if what != last {
				f.notef("%s", clean(what))
			}
			last = what
			return
		}
		if bytes > 0 {
			what += ": " + config.FormatSize(bytes>>20<<20)
		}
		spin.phase(clean(what))
	}
	got, err := program.Install(ctx, o)
	spin.stop()
	switch {
	case err != nil:
		return err
	case f.json:
		return writeJSON(f.out, got)
	}
	how := "was there already; --force installs it anew"
	if got.Made {
		how = "installed in " + brief(f.now().Sub(start))
	}
	_, err = fmt.Fprintf(f.out, "%s %s (%s): %s\n", f.out.paint(bold, o.Title), clean(got.Version), how, clean(got.Path))
	return err
}
