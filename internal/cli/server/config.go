package server

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
)

func (a *app) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings and their origins",
		Long: `Show what 'berth serve' with the same flags, environment and file would use: each setting with its value
and its origin. Secrets are masked. Values that a server would refuse are marked, and the command then exits
with 125.`,
		Example: "  berth config\n  berth config --config /etc/berth.toml --json",
		Args:    ui.Args(0, 0, ""),
	}
	load := a.Settings(cmd)
	a.WideFlag(cmd)
	cmd.RunE = ui.Run(func(context.Context, []string) error {
		cfg, err := load()
		if cfg == nil {
			return err
		}
		return cmp.Or(a.showConfig(cfg), err)
	})
	return cmd
}

// shownConfig is the JSON output of berth config.
type shownConfig struct {
	File     string       `json:"file,omitempty"`
	Settings []config.Row `json:"settings"`
	Warnings []string     `json:"warnings"`
}

func (a *app) showConfig(cfg *config.Loaded) error {
	if a.JSON {
		return ui.WriteJSON(a.Out, shownConfig{cfg.File, cfg.Rows(), append([]string{}, cfg.Warnings...)})
	}
	t := a.NewTable("SETTING", "VALUE", "FROM")
	for _, row := range cfg.Rows() {
		if err := t.Add(ui.Plain(row.Key), ui.Plain(ui.OrDash(row.Value)), from(row)); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, warning := range cfg.Warnings {
		a.Notef("berth: warning: %s", ui.Clean(warning))
	}
	return nil
}

// from returns the origin of a value, with a mark if the server would refuse the value. The error of the command has
// the reason.
func from(row config.Row) ui.Cell {
	switch {
	case row.Problem != "":
		return ui.Coloured(row.Origin+"  REFUSED", ui.Red)
	case row.Origin == "default":
		return ui.Coloured(row.Origin, ui.Dim)
	}
	return ui.Coloured(row.Origin, ui.Green)
}
