package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/config"
)

func (f *frame) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force and where each comes from",
		Long: `Show what 'berth serve' with the same flags, environment and file would use: each setting, its value
and where that comes from. Secrets are masked. Values that a server would refuse are marked, and the
command then ends with 125.`,
		Example: "  berth config\n  berth config --config /etc/berth.toml --json",
		Args:    takes(0, 0, ""),
	}
	load := f.configured(cmd)
	cmd.RunE = run(func(context.Context, []string) error {
		cfg, err := load()
		if cfg == nil {
			return err
		}
		return cmp.Or(f.showConfig(cfg), err)
	})
	return cmd
}

// shownConfig is what --json prints.
type shownConfig struct {
	File     string       `json:"file,omitempty"`
	Settings []config.Row `json:"settings"`
	Warnings []string     `json:"warnings"`
}

func (f *frame) showConfig(cfg *config.Loaded) error {
	if f.json {
		return writeJSON(f.out, shownConfig{cfg.File, cfg.Rows(), append([]string{}, cfg.Warnings...)})
	}
	t := f.table("SETTING", "VALUE", "FROM")
	for _, row := range cfg.Rows() {
		if err := t.add(plain(row.Key), plain(orDash(row.Value)), from(row)); err != nil {
			return err
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, warning := range cfg.Warnings {
		f.notef("berth: warning: %s", clean(warning))
	}
	return nil
}

// from says where a value comes from and marks it when a server would refuse it; the error that
// ends the command says why.
func from(row config.Row) cell {
	switch {
	case row.Problem != "":
		return cell{row.Origin + "  REFUSED", red}
	case row.Origin == "default":
		return cell{row.Origin, dim}
	}
	return cell{row.Origin, green}
}
