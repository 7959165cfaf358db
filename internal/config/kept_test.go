package config_test

import (
	"testing"

	"github.com/berthdev/berth/internal/config"
)

// Every version is kept unless a number says otherwise. A value that makes no sense refuses to start: it must not
// prune by mistake.
func TestKeptVersions(t *testing.T) {
	if got := load(t, config.Sources{}); got.KeepLast != 0 || got.KeepDaily != 0 {
		t.Errorf("by default %d, %d", got.KeepLast, got.KeepDaily)
	}
	for raw, want := range map[string]int{"0": 0, "off": 0, "20": 20, " 7 ": 7, "1000000": 1_000_000} {
		if got := load(t, config.Sources{Env: env("BERTH_KEEP_LAST", raw)}).KeepLast; got != want {
			t.Errorf("%q: %d", raw, got)
		}
	}
	for _, raw := range []string{"-1", "many", "1000001", "1.5"} {
		if p := problems(t, config.Sources{Env: env("BERTH_KEEP_DAILY", raw)}); len(p) != 1 || p[0].Key != "keep_daily" {
			t.Errorf("%q: %+v", raw, p)
		}
	}
	if got := load(t, config.Sources{File: writeFile(t, "keep_last = 5\nkeep_daily = \"30\"")}); got.KeepLast != 5 || got.KeepDaily != 30 {
		t.Errorf("%d, %d", got.KeepLast, got.KeepDaily)
	}
}
