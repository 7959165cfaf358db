package config_test

import (
	"testing"

	"github.com/berthdev/berth/internal/config"
)

func TestNearestName(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"scrach", "scratch", 1}, {"abc", "abd", 1}, {"kitten", "sitting", 3}} {
		if got := config.Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
