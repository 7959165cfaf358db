package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/template"
)

func (f *frame) templateCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the templates of a configuration, without a server",
		Long: `Check the templates of a configuration on this machine, without a server: FILE, or the one that
'berth serve' with the same flags and environment would read. Everything a server would refuse to
start with is told with its place and its fix, and so is what it would keep without using.

It ends with 0 when a server would start and with 1 otherwise.`,
		Example: "  berth template check\n  berth template check berth.toml\n  berth template check berth.toml --json",
		Args:    takes(0, 1, "one FILE"),
	}
	load := f.configured(cmd)
	cmd.RunE = run(func(_ context.Context, args []string) error {
		if len(args) > 0 {
			if err := cmd.Flags().Set("config", args[0]); err != nil {
				return err
			}
		}
		cfg, err := load()
		if cfg == nil {
			return err
		}
		return f.showTemplateCheck(cfg, err)
	})
	return cmd
}

// checkedTemplates is what --json prints.
type checkedTemplates struct {
	Status    string            `json:"status"` // ok, warning or failed
	File      string            `json:"file,omitempty"`
	Templates []string          `json:"templates"` // those that sandboxes could have
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

func (f *frame) showTemplateCheck(cfg *config.Loaded, loadErr error) error {
	registry, report := template.FromConfig(cfg, f.Drivers)
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
	if err := f.printTemplateCheck(found); err != nil {
		return err
	}
	if found.Status == "failed" {
		return exited(1)
	}
	return nil
}

func (f *frame) printTemplateCheck(found checkedTemplates) error {
	if f.json {
		return writeJSON(f.out, found)
	}
	counts := map[string]int{}
	for _, name := range found.Templates {
		fmt.Fprintf(f.out, "%s %s\n", f.out.paint(green, "ok      "), clean(name))
	}
	for _, x := range found.Findings {
		counts[x.Status]++
		colour := map[string]colour{"warning": yellow, "failed": red}[x.Status]
		p := config.Problem{Key: x.Key, Origin: x.Origin, Value: x.Value, Why: x.Why}
		fmt.Fprintf(f.out, "%s %s\n         fix: %s\n", f.out.paint(colour, fmt.Sprintf("%-8s", x.Status)), clean(p.Finding()), clean(x.Fix))
	}
	_, err := fmt.Fprintf(f.out, "%s, %s, %d failed\n", plural(len(found.Templates), "template", "templates"),
		plural(counts["warning"], "warning", "warnings"), counts["failed"])
	return err
}
