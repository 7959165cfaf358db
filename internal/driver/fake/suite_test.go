package fake_test

import (
	"os"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/drivertest"
	"github.com/berthdev/berth/internal/driver/fake"
)

// open opens a fake driver or fails the test.
func open(t testing.TB, dir string, opts ...fake.Option) *fake.Driver {
	t.Helper()
	d, err := fake.New(dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// harness opens drivers with opts, each on a directory of its own, or all on dir if there is one.
func harness(dir string, opts ...fake.Option) drivertest.Harness {
	dirs := map[driver.Driver]string{}
	return drivertest.Harness{
		New: func(t *testing.T) driver.Driver {
			own := dir
			if own == "" {
				own = t.TempDir()
			}
			d := open(t, own, opts...)
			dirs[d] = own
			return d
		},
		Reopen: func(t *testing.T, d driver.Driver) driver.Driver { return open(t, dirs[d], opts...) },
	}
}

func TestSuite(t *testing.T) {
	drivertest.Run(t, harness(os.Getenv(sharedDirEnv)))
}

func TestSuiteWithUniqueNames(t *testing.T) {
	drivertest.Run(t, harness("", fake.UniqueNames()))
}

func TestSuiteWithLatency(t *testing.T) {
	h := harness("", fake.Latency(0, 4*time.Millisecond))
	h.Slow = true
	drivertest.Run(t, h)
}
