package template

import (
	"testing"

	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/template/program"
)

// The versions that are installed are those with which the profiles are tested, in the directories where they look.
func TestInstalledProgramsAreThoseOfTheProfiles(t *testing.T) {
	for name := range agents {
		a, ok := profile.Find(name)
		p, err := program.Find(name)
		if !ok || err != nil || p.Mount() != a.Mount() || p.Command != a.Command[0] {
			t.Fatalf("%s: %s in %s, want %s in %s (%v)", name, p.Command, p.Mount(), a.Command[0], a.Mount(), err)
		}
		if len(a.Packages) > 0 && p.Tested() != a.Packages[0].Version {
			t.Errorf("%s: version %s is installed, %s is tested", name, p.Tested(), a.Packages[0].Version)
		}
	}
}
