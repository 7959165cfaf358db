package app

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/config"
)

// templates are those that this binary holds.
var templates = []string{"default", "none"}

// check refuses a configuration that names what this binary does not hold.
func check(cfg *config.Loaded) error {
	var bad []config.Problem
	for _, named := range []struct {
		key, value, what string
		known            []string
	}{
		{"default_driver", cfg.DefaultDriver, "driver", Drivers()},
		{"default_template", cfg.DefaultTemplate, "template", templates},
	} {
		if !slices.Contains(named.known, named.value) {
			bad = append(bad, config.Problem{Key: named.key, Origin: cfg.Origin(named.key), Value: named.value,
				Why: "is no " + named.what + " of this Berth", Fix: "write one of: " + strings.Join(named.known, ", ")})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Templates)) {
		bad = append(bad, config.Problem{Key: "templates." + name, Origin: cfg.Templates[name].Origin,
			Why: "cannot be defined in this version", Fix: "remove the section; the templates are: " + strings.Join(templates, ", ")})
	}
	if len(bad) > 0 {
		return &config.Error{Problems: bad}
	}
	return nil
}

// warnings says what works but may not be meant.
func warnings(cfg *config.Loaded) (all []string) {
	if cfg.DatabaseURL != "" {
		all = append(all, fmt.Sprintf("the fake driver keeps its instances in %s; every server on this database must use the same directory (fake_driver_dir)", cfg.FakeDriverDir))
	}
	if info, err := os.Stat(cfg.DataDir); err == nil && info.Mode().Perm()&0o022 != 0 {
		all = append(all, fmt.Sprintf("other users may write to %s and so replace its keys and database; chmod 700 %s", cfg.DataDir, cfg.DataDir))
	}
	return all
}
