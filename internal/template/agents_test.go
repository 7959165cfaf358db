package template

import (
	"testing"

	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/template/program"
)

// Programs are installed under the names and in the directories where the profiles look for them.
func TestInstalledProgramsAreThoseOfTheProfiles(t *testing.T) {
	for name := range agents {
		a, ok := profile.Find(name)
		p, err := program.Find(name)
		if !ok || err != nil || p.Mount() != a.Mount() || p.Command != a.Command[0] {
			t.Fatalf("%s: %s in %s, want %s in %s (%v)", name, p.Command, p.Mount(), a.Command[0], a.Mount(), err)
		}
	}
}
