package cli

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/template/base"
)

func (f *frame) templateBuildBase() *cobra.Command {
	var o base.Options
	cmd := &cobra.Command{
		Use:   "build-base NAME",
		Short: "Build a base for sandboxes: a small Debian of their own",
		Long: `Build the base NAME with debootstrap: a small system of its own for sandboxes, in which apt and dpkg
work. A template uses it with base = "NAME". It needs root and debootstrap, and takes a minute or two;
a base that is there is not built again without --force.

Packages come from where apt on this machine fetches them; --mirror names another place. A base that
--force replaces is kept beside it, because sandboxes may be running on it.`,
		Example: `  sudo berth template build-base debian
  sudo berth template build-base tools --include git,python3 --suite bookworm
  sudo berth template build-base debian --force`,
		Args: takes(1, 1, "the NAME of one base"),
	}
	load := f.configured(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.Suite, "suite", "", "`RELEASE` to build (default: this machine's own, else bookworm)")
	flags.StringVar(&o.Mirror, "mirror", "", "`URL` to fetch packages from (default: where apt on this machine does)")
	flags.StringSliceVar(&o.Include, "include", nil, "further `PACKAGES`, separated by commas")
	flags.BoolVar(&o.Force, "force", false, "build it anew although it is there")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		o.Name, o.DataDir = args[0], cfg.DataDir
		return f.runBuildBase(ctx, o)
	})
	return cmd
}

// builtBase is what --json prints.
type builtBase struct {
	base.Base
	Made   bool   `json:"made"`
	Former string `json:"former,omitempty"` // where the base that it replaced is
}

func (f *frame) runBuildBase(ctx context.Context, o base.Options) error {
	start := f.now()
	spin := f.spin("building " + clean(o.Name))
	o.Progress = func(what string, first bool) {
		switch {
		case spin != nil:
			spin.phase(clean(what))
		case first:
			f.notef("%s", clean(what))
		}
	}
	got, err := base.Build(ctx, o)
	spin.stop()
	switch {
	case err != nil:
		return err
	case f.json:
		return writeJSON(f.out, builtBase{got.Base, got.Made, got.Former})
	}
	how := "was there already; --force builds it anew"
	if got.Made {
		how = "built in " + brief(f.now().Sub(start))
	}
	if got.Former != "" {
		f.notef("The former base is kept for sandboxes that run on it. Once they have stopped: rm -rf %s", clean(got.Former))
	}
	_, err = fmt.Fprintf(f.out, "%s (%s): %s\nUse it in a template with base = %q.\n", f.out.paint(bold, clean(got.Name)), how, clean(got.Path), got.Name)
	return err
}

func (f *frame) templateBases() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bases",
		Short:   "List the bases on this machine",
		Long:    "List the bases in the data directory of a server on this machine. 'host' is always there and not listed.",
		Example: "  berth template bases\n  berth template bases --data-dir /var/lib/berth",
		Args:    takes(0, 0, ""),
	}
	f.quietly(cmd, "names")
	load := f.configured(cmd)
	cmd.RunE = run(func(context.Context, []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		found, err := base.List(cfg.DataDir)
		if err != nil {
			return err
		}
		return f.showBases(found)
	})
	return cmd
}

func (f *frame) showBases(found []base.Base) error {
	return show(f, unfailing(found), listing[base.Base]{
		columns: []string{"NAME", "SUITE", "BUILT", "PATH"},
		row: func(b base.Base) []cell {
			return []cell{plain(b.Name), plain(orDash(b.Suite)), plain(f.when(b.BuiltAt)), plain(b.Path)}
		},
		id:    func(b base.Base) string { return b.Name },
		empty: "No bases yet. 'berth template build-base NAME' makes one.",
	})
}

// unfailing is the list as a sequence that never fails.
func unfailing[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}
