package template

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/template"
)

func (a *app) templateCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the templates of a configuration, without a server",
		Long: `Check the templates of a configuration on this machine, without a server: FILE, or the file that 'berth
serve' with the same flags and environment would read. It reports, with position and fix, everything
that would prevent the start of a server, and settings without effect.

Exits with 0 if a server would start, otherwise with 1.`,
		Example: "  berth template check\n  berth template check berth.toml\n  berth template check berth.toml --json",
		Args:    ui.Args(0, 1, "one FILE"),
	}
	load := a.Settings(cmd)
	cmd.RunE = ui.Run(func(_ context.Context, args []string) error {
		if len(args) > 0 {
			if err := cmd.Flags().Set("config", args[0]); err != nil {
				return err
			}
		}
		cfg, err := load()
		if cfg == nil {
			return err
		}
		return a.showTemplateCheck(cfg, err)
	})
	return cmd
}

// checkedTemplates is the JSON output of template check.
type checkedTemplates struct {
	Status    string            `json:"status"` // ok, warning or failed
	File      string            `json:"file,omitempty"`
	Templates []string          `json:"templates"` // names of the valid templates
	Findings  []templateFinding `json:"findings"`
}

type templateFinding struct {
	Status string `json:"status"` // warning or failed
	Key    string `json:"key"`
	Origin string `json:"origin,omitempty"`
	Value  string `json:"value,omitempty"`
	Why    string `json:"why"`
	Fix    string `json:"fix"`
}

func (a *app) showTemplateCheck(cfg *config.Loaded, loadErr error) error {
	registry, report := template.FromConfig(cfg, a.Drivers)
	var conf *config.Error
	if errors.As(loadErr, &conf) {
		report.Problems = append(conf.Problems, report.Problems...)
	}
	found := checkedTemplates{Status: "ok", File: cfg.File, Templates: registry.Names(), Findings: []templateFinding{}}
	for _, group := range []struct {
		status   string
		problems []config.Problem
	}{{"warning", report.Warnings}, {"failed", report.Problems}} {
		for _, p := range group.problems {
			found.Status = group.status
			found.Findings = append(found.Findings, templateFinding{group.status, p.Key, p.Origin, p.Value, p.Why, p.Fix})
		}
	}
	if err := a.printTemplateCheck(found); err != nil {
		return err
	}
	if found.Status == "failed" {
		return ui.ExitCode(1)
	}
	return nil
}

func (a *app) printTemplateCheck(found checkedTemplates) error {
	if a.JSON {
		return ui.WriteJSON(a.Out, found)
	}
	counts := map[string]int{}
	for _, name := range found.Templates {
		fmt.Fprintf(a.Out, "%s %s\n", a.Out.Paint(ui.Green, "ok      "), ui.Clean(name))
	}
	for _, x := range found.Findings {
		counts[x.Status]++
		colour := map[string]ui.Colour{"warning": ui.Yellow, "failed": ui.Red}[x.Status]
		p := config.Problem{Key: x.Key, Origin: x.Origin, Value: x.Value, Why: x.Why}
		fmt.Fprintf(a.Out, "%s %s\n         fix: %s\n", a.Out.Paint(colour, fmt.Sprintf("%-8s", x.Status)), ui.Clean(p.Finding()), ui.Clean(x.Fix))
	}
	_, err := fmt.Fprintf(a.Out, "%s, %s, %d failed\n", ui.Plural(len(found.Templates), "template", "templates"),
		ui.Plural(counts["warning"], "warning", "warnings"), counts["failed"])
	return err
}
