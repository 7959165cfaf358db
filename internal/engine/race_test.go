package engine_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

func names(n int) []string {
	owners := make([]string, n)
	for i := range owners {
		owners[i] = fmt.Sprintf("owner-%d", i)
	}
	return owners
}

// Eight servers race for the same owners, and over some leases the first holder dozes off: the
// driver is asked for exactly one instance per owner. Counting in the driver's own log is what shows
// a broken lease; the end state alone would look right. A machine so busy that a lease runs out in the
// middle of a create costs that owner a second one, which the overtaken holder reports.
func TestEightServersRaceOneCreatePerOwner(t *testing.T) {
	testkit.Proves(t, "O1", "O2", "O3")
	at := onPostgres(t)
	at.LeaseTTL = 5 * time.Second
	owners := names(testkit.Size(t, "i1.owners"))
	var racers []*actor
	for range testkit.Size(t, "i1.processes") {
		racers = append(racers, start(t, "racer", script{Place: at, Owners: owners, Stall: owners[:20]}))
	}
	began := time.Now()
	var wg sync.WaitGroup
	var lapsed atomic.Int64
	for _, r := range racers {
		r.tell(t)
		wg.Go(func() {
			_, begun := r.done(t)
			lapsed.Add(int64(begun))
			if err := r.cmd.Wait(); err != nil {
				t.Errorf("a racer: %v", err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d servers, %d owners: %s; %d leases ran out in the middle of a create", len(racers), len(owners),
		time.Since(began).Round(time.Millisecond), lapsed.Load())
	if lapsed.Load() > int64(len(owners)/50) {
		t.Errorf("%d creates were overtaken", lapsed.Load())
	}
	at.open(t).exactlyOneEach(t, owners, int(lapsed.Load()))
}

// The same in one server: SQLite has no second one.
func TestEightEnginesRaceInOneServer(t *testing.T) {
	testkit.Proves(t, "O1", "O3", "X1")
	at := onSQLite(t)
	at.LeaseTTL = time.Minute // none runs out on a busy machine, which would allow a second create
	owners := names(testkit.Size(t, "i1.engines"))
	srv := at.open(t)
	var wg sync.WaitGroup
	for range 8 {
		one := *srv
		one.Engine = engine.New(srv.Options())
		wg.Go(func() {
			if err := one.all(script{Owners: owners}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	srv.exactlyOneEach(t, owners, 0)
	if _, err := open(at); fault.CodeOf(err) != api.CodeDataDirLocked {
		t.Errorf("a second server in the same data directory: %v", err)
	}
}

// exactlyOneEach checks the driver's log and what it has against the rows. Up to lapsed creates may
// have been repeated.
func (s *server) exactlyOneEach(t *testing.T, owners []string, lapsed int) {
	t.Helper()
	if n := s.creates(t); n < len(owners) || n > len(owners)+lapsed {
		t.Errorf("%d creates were sent to the driver for %d owners", n, len(owners))
	}
	live := s.live(t)
	if len(live) != len(owners) {
		t.Errorf("the driver has instances of %d sandboxes, there are %d owners", len(live), len(owners))
	}
	for _, o := range owners {
		sb, err := s.db.In("default").ByOwner(t.Context(), sandbox.OwnerProject, o)
		if err != nil {
			t.Fatal(err)
		}
		if sb.State != sandbox.Running {
			t.Errorf("%s is %s", o, sb.State)
		}
		if ids := live[sb.ID]; len(ids) != 1 || string(ids[0]) != string(sb.Instance) {
			t.Errorf("%s: row names %s, the driver has %v", o, sb.Instance, ids)
		}
	}
}
