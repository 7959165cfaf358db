package engine_test

import (
	"os"
	"testing"

	"github.com/berthdev/berth/internal/testkit/pgtest"
)

// TestMain runs this binary as a second server when a test asked for one, else the tests.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role == "agent" {
		os.Exit(playAgent())
	} else if role != "" {
		os.Exit(play(role))
	}
	os.Exit(pgtest.Main(m))
}
