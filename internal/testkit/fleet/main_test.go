package fleet_test

import (
	"os"
	"testing"

	"github.com/berthdev/berth/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
