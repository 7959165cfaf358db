package config_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/config"
)

// What is to be kept for ever must not go because of a slip of the pen: a value that makes no sense refuses to
// start.
func TestDeletedRetention(t *testing.T) {
	if got := load(t, config.Sources{}).DeletedRetention; got != 30*24*time.Hour {
		t.Errorf("by default %s", got)
	}
	for raw, want := range map[string]time.Duration{"0": 0, "off": 0, " off ": 0, "7d": 7 * 24 * time.Hour, "90": 90 * time.Second, "1h30m": 90 * time.Minute} {
		if got := load(t, config.Sources{Env: env("BERTH_DELETED_RETENTION", raw)}).DeletedRetention; got != want {
			t.Errorf("%q: %s", raw, got)
		}
	}
	for _, raw := range []string{"-1s", "of", "never", "d", "1.5d", "-2d", "99999999d"} {
		if p := problems(t, config.Sources{Env: env("BERTH_DELETED_RETENTION", raw)}); len(p) != 1 || p[0].Key != "deleted_retention" {
			t.Errorf("%q: %+v", raw, p)
		}
	}
	path := writeFile(t, `deleted_retention = "14d"`)
	l := load(t, config.Sources{File: path})
	if l.DeletedRetention != 14*24*time.Hour {
		t.Errorf("%s", l.DeletedRetention)
	}
}
