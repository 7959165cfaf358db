package archtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
)

// TestPlainWords lowers the ceilings of avoided words when BERTH_UPDATE_GOLDEN=1 is set. The rule "plain words"
// compares the packages with them.
func TestPlainWords(t *testing.T) {
	root := moduleRoot(t)
	m, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	places := avoidedPlaces(m)
	if os.Getenv(testkit.UpdateGolden) != "1" {
		return
	}
	path := filepath.Join(root, filepath.FromSlash(avoidedCeilings))
	if err := os.WriteFile(path, []byte(lowered(m.Texts[avoidedCeilings], places)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCeilingsOnlyShrink(t *testing.T) {
	places := map[string][]string{"a": {"1", "2"}, "b": {"1", "2", "3"}, "c": {"1"}}
	if got, want := lowered("a 5\nb 2\nd 4\n", places), "a 2\nb 2\n"; got != want {
		t.Errorf("lowered = %q, want %q", got, want)
	}
}
