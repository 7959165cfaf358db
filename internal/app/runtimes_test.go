package app

import (
	"testing"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/telemetry"
)

// A template whose runtime nobody knows would only be noticed by its first prompt.
func TestEveryTemplateHasARuntime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg, err := config.Load(config.Sources{Env: func(name string) (string, bool) {
		if name == "BERTH_DATA_DIR" {
			return dir, true
		}
		return "", false
	}})
	if err != nil {
		t.Fatal(err)
	}
	registry, _, err := loadTemplates(cfg, nil, new(telemetry.Redactor))
	if err != nil {
		t.Fatal(err)
	}
	known := new(System).runtimes()
	for _, name := range registry.Names() {
		got, err := registry.Lookup(name)
		if err != nil || known[got.Runtime] == nil {
			t.Errorf("template %s has the runtime %q, which nobody knows: %v", name, got.Runtime, err)
		}
	}
	if len(registry.Names()) < len(known) {
		t.Errorf("there are templates %v for the runtimes %v", registry.Names(), known)
	}
}
