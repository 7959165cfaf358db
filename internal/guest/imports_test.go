package guest_test

import (
	"os/exec"
	"strings"
	"testing"
)

// What the helper imports is initialised before it takes over, and so is whatever Go puts before that. With
// os and what os itself needs, this is little.
func TestTheHelperImportsLittle(t *testing.T) {
	const module = "github.com/berthdev/berth/internal/guest/"
	allowed := map[string]bool{"context": true}
	for _, name := range deps(t, "os") {
		allowed[name] = true
	}
	for _, name := range deps(t, module+"pid1") {
		if !allowed[name] && !strings.HasPrefix(name, module) {
			t.Errorf("the helper imports %s", name)
		}
	}
}

func deps(t *testing.T, name string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", name)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}
