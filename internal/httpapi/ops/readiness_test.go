package ops

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/telemetry"
)

// driverChecks is an engine that answers checks alone.
type driverChecks struct {
	access.Engine
	check func(ctx context.Context) []api.Check
}

func (e driverChecks) Check(ctx context.Context) []api.Check { return e.check(ctx) }

// readinessOver is over an engine and a database that answer as given.
func readinessOver(database, drivers func(ctx context.Context) []api.Check) *readiness {
	rd := newReadiness(&handlers{Options: Options{Engine: driverChecks{check: drivers}, Redactor: new(telemetry.Redactor), Log: slog.New(slog.DiscardHandler)}})
	rd.database.ask = database
	return rd
}

func TestReadinessAsksDriversSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := func(n *int) func(context.Context) []api.Check {
			return func(context.Context) []api.Check { *n++; return nil }
		}
		var database, drivers int
		rd := readinessOver(count(&database), count(&drivers))
		for range 100 { // half a minute, asked more often than anything is
			rd.look(t.Context())
			time.Sleep(300 * time.Millisecond)
		}
		if drivers != 3 || database < 20 || database > 30 {
			t.Errorf("in 30 s the drivers were asked %d times, the database %d times", drivers, database)
		}
	})
}

// Only the check that hangs fails: each check has its own time.
func TestReadinessBlamesWhatHangs(t *testing.T) {
	hangs := func(name string) func(context.Context) []api.Check {
		return func(ctx context.Context) []api.Check {
			<-ctx.Done()
			return []api.Check{{Name: name, Status: "failed", Detail: ctx.Err().Error()}}
		}
	}
	slow := func(name string) func(context.Context) []api.Check {
		return func(ctx context.Context) []api.Check {
			select {
			case <-ctx.Done():
				return hangs(name)(ctx)
			case <-time.After(2 * time.Second):
				return []api.Check{{Name: name, Status: "ok"}}
			}
		}
	}
	for _, c := range []struct {
		rd    *readiness
		blame string
	}{
		{readinessOver(hangs("database"), slow("driver")), "database"},
		{readinessOver(slow("database"), hangs("driver")), "driver"},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			checks := c.rd.look(t.Context())
			if took := time.Since(start); took != checkTime || len(checks) != 2 {
				t.Errorf("%d checks after %v", len(checks), took)
			}
			for _, got := range checks {
				if failed := got.Status == "failed"; failed != (got.Name == c.blame) {
					t.Errorf("%s hangs, yet %+v", c.blame, got)
				}
			}
		})
	}
}

func TestReadinessTellsInOneLineWithoutSecrets(t *testing.T) {
	rd := readinessOver(
		func(context.Context) []api.Check { return nil },
		func(context.Context) []api.Check {
			return []api.Check{{Name: "driver", Status: "failed", Detail: "cannot connect:\n\tkey s3cr3t-s3cr3t refused\n"}}
		})
	rd.a.Redactor.Add("s3cr3t-s3cr3t")
	if got := rd.look(t.Context())[0].Detail; got != "cannot connect: key [redacted] refused" {
		t.Errorf("detail %q", got)
	}
}
