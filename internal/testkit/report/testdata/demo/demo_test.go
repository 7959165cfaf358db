// Package demo has one test of each ending, for the test of the report itself.
package demo

import (
	"os"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
)

func TestPasses(t *testing.T) {
	testkit.Proves(t, "X8")
	t.Log("nobody reads this")
}

func TestFails(t *testing.T) {
	testkit.Proves(t, "X7")
	if os.Getenv("BERTH_DEMO_FAILS") == "" {
		return
	}
	t.Run("deep", func(t *testing.T) { t.Error("the reason is here") })
}

func TestHangs(t *testing.T) {
	testkit.Proves(t, "X3")
	if os.Getenv("BERTH_DEMO_HANGS") == "" {
		return
	}
	t.Run("for ever", func(t *testing.T) { select {} })
}

func TestComesLast(t *testing.T) { testkit.Proves(t, "X4") }

func TestSkipped(t *testing.T) {
	testkit.Proves(t, "X6")
	t.Skip("it rains")
}

func TestOnlySkipsBelow(t *testing.T) {
	testkit.Proves(t, "X5")
	t.Run("below", func(t *testing.T) { t.Skip("it rains") })
}
