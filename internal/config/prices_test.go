package config_test

import (
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/testkit"
)

func TestPrices(t *testing.T) {
	testkit.Proves(t, "C8")
	path := writeFile(t, `prices = ["claude-sonnet-*=3/15/0.30/3.75", "*=1/2"]`)
	l, err := config.Load(config.Sources{File: path})
	if err != nil {
		t.Fatal(err)
	}
	u := api.Usage{InputTokens: 1_000_000, OutputTokens: 2_000_000, CacheReadTokens: 10_000_000, CacheWriteTokens: 4_000_000}
	for model, want := range map[string]float64{"claude-sonnet-4-5": 3 + 30 + 3 + 15, "other": 1 + 4} {
		if got := l.Prices.Of(model, u); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s costs %v, want %v", model, got, want)
		}
	}
	if got := (config.Prices{}).Of("m", u); got != 0 {
		t.Errorf("without a list it costs %v", got)
	}
	for _, raw := range []string{"x", "=1/2", "m=1", "m=1/2/3", "m=a/b", "m=-1/2", "m=1/NaN", "[=1/2"} {
		if p := problems(t, config.Sources{Env: env("BERTH_PRICES", raw)}); len(p) != 1 || p[0].Key != "prices" {
			t.Errorf("%q: %+v", raw, p)
		}
	}
}
