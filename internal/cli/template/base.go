package template

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/template/base"
)

func (a *app) templateBuildBase() *cobra.Command {
	var o base.Options
	cmd := &cobra.Command{
		Use:   "build-base NAME",
		Short: "Build a small Debian system as a base for sandboxes",
		Long: `Build the base NAME with debootstrap: a small system for sandboxes, in which apt and dpkg work. A
template uses it with base = "NAME". This needs root and debootstrap, and takes a minute or two; an
existing base is not built again without --force.

Packages come from the mirror that apt on this machine uses, or from --mirror. A base that --force
replaces is kept, because sandboxes may run on it.`,
		Example: `  sudo berth template build-base debian
  sudo berth template build-base tools --include git,python3 --suite bookworm
  sudo berth template build-base debian --force`,
		Args: ui.Args(1, 1, "the NAME of one base"),
	}
	load := a.Settings(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.Suite, "suite", "", "`RELEASE` to build (default: this machine's own, else bookworm)")
	flags.StringVar(&o.Mirror, "mirror", "", "`URL` to fetch packages from (default: where apt on this machine does)")
	flags.StringSliceVar(&o.Include, "include", nil, "further `PACKAGES`, separated by commas")
	flags.BoolVar(&o.Force, "force", false, "build it anew although it is there")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		o.Name, o.DataDir = args[0], cfg.DataDir
		return a.runBuildBase(ctx, o)
	})
	return cmd
}

// builtBase is the JSON output of build-base.
type builtBase struct {
	base.Base
	Made   bool   `json:"made"`
	Former string `json:"former,omitempty"` // path of the base that was replaced
}

func (a *app) runBuildBase(ctx context.Context, o base.Options) error {
	start := a.Now()
	spin := a.Spin("building " + ui.Clean(o.Name))
	o.Progress = func(what string, first bool) {
		switch {
		case spin != nil:
			spin.Phase(ui.Clean(what))
		case first:
			a.Notef("%s", ui.Clean(what))
		}
	}
	got, err := base.Build(ctx, o)
	spin.Stop()
	switch {
	case err != nil:
		return err
	case a.JSON:
		return ui.WriteJSON(a.Out, builtBase{got.Base, got.Made, got.Former})
	}
	how := "was there already; --force builds it anew"
	if got.Made {
		how = "built in " + ui.Brief(a.Now().Sub(start))
	}
	if got.Former != "" {
		a.Notef("The former base is kept for sandboxes that run on it. Once they have stopped: rm -rf %s", ui.Clean(got.Former))
	}
	_, err = fmt.Fprintf(a.Out, "%s (%s): %s\nUse it in a template with base = %q.\n", a.Out.Paint(ui.Bold, ui.Clean(got.Name)), how, ui.Clean(got.Path), got.Name)
	return err
}

func (a *app) templateBases() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bases",
		Short: "List the bases on this machine",
		Long: `List the bases in the data directory of a server on this machine. 'host' always exists and is not
listed.`,
		Example: "  berth template bases\n  berth template bases --data-dir /var/lib/berth",
		Args:    ui.Args(0, 0, ""),
	}
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "names")
	load := a.Settings(cmd)
	cmd.RunE = ui.Run(func(context.Context, []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		found, err := base.List(cfg.DataDir)
		if err != nil {
			return err
		}
		return a.showBases(found)
	})
	return cmd
}

func (a *app) showBases(found []base.Base) error {
	return ui.Show(a.UI, withoutErrors(found), ui.Listing[base.Base]{
		Columns: []string{"NAME", "SUITE", "BUILT", "PATH"},
		Drop:    []string{"SUITE"},
		Row: func(b base.Base) []ui.Cell {
			return []ui.Cell{ui.Plain(b.Name), ui.Plain(ui.OrDash(b.Suite)), ui.Plain(a.Time(b.BuiltAt)), ui.Plain(b.Path)}
		},
		ID:    func(b base.Base) string { return b.Name },
		Empty: "No bases yet. 'berth template build-base NAME' makes one.",
	})
}

// withoutErrors returns a sequence of the items without errors.
func withoutErrors[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}
