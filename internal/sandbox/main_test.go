package sandbox

import (
	"flag"
	"os"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
)

// TestMain asks rapid for enough histories that every legal transition is run.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := "20000"
	if testkit.Torture() {
		checks = "1000000"
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(checks)
	}
	os.Exit(m.Run())
}
