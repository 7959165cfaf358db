package server

import (
	"testing"

	"github.com/berthdev/berth/internal/cli/ui"
)

func TestActionColour(t *testing.T) {
	for action, want := range map[string]ui.Colour{"failed": ui.Red, "ended": ui.Green, "settled": ui.Green, "waits": ui.Yellow, "kept": ui.Yellow} {
		if got := actionColour(action); got != want {
			t.Errorf("%s is %s", action, got)
		}
	}
}
