package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// windows are the places between two effects of a holder's work. A server is killed in each, with many
// sandboxes there at once; the next one settles what it left.
var windows = []struct {
	point  string
	delete bool
}{
	{"after-lease", false},  // nothing written
	{"after-begin", false},  // incarnation counted, nothing made
	{"after-create", false}, // made, not recorded
	{"after-ready", false},  // recorded, lease not given up
	{"after-end", true},     // end recorded, nothing ended
	{"after-destroy", true}, // ended, not recorded
	{"after-ended", true},   // recorded, lease not given up
}

func TestKilledServerLeavesNothingUnsettled(t *testing.T) {
	testkit.Proves(t, "O6")
	const each = 10
	for _, w := range windows {
		t.Run(w.point, func(t *testing.T) {
			t.Parallel()
			at := onPostgres(t)
			at.LeaseTTL = time.Second
			next := at.open(t)
			owners := names(each)
			if w.delete {
				for _, o := range owners {
					next.ensure(t, project(o))
				}
			}
			victim := start(t, "killed", script{Place: at, Owners: owners, Point: w.point, Delete: w.delete})
			victim.tell(t)
			if err := victim.cmd.Wait(); err == nil || err.Error() != "signal: killed" {
				t.Fatalf("the window was not hit by all: %v", err)
			}
			testkit.Eventually(t, 60*time.Second, func() error {
				_, err := next.Reconcile(t.Context())
				if err == nil {
					err = next.unsettled(t)
				}
				return err
			})
			next.clean(t, owners, w.delete)
		})
	}
}

// unsettled says which owner's sandbox is not where it should be yet.
func (s *server) unsettled(t *testing.T) error {
	for _, sb := range s.rows(t) {
		if !sb.Settled() {
			return fmt.Errorf("%s is %s, wanted %s", sb.Owner.ID, sb.State, sb.Want)
		}
	}
	return nil
}

// clean checks that every owner has its one instance, or that nothing is left.
func (s *server) clean(t *testing.T, owners []string, deleted bool) {
	t.Helper()
	rows := s.rows(t)
	if len(rows) != len(owners) {
		t.Errorf("%d rows for %d owners", len(rows), len(owners))
	}
	if deleted {
		if live := s.live(t); len(live) > 0 {
			t.Errorf("deleted, and the driver still has %v", live)
		}
		return
	}
	for _, sb := range rows {
		s.one(t, sb)
	}
}

// rows reads every sandbox, deleted ones too.
func (s *server) rows(t *testing.T) []sandbox.Sandbox {
	t.Helper()
	rows, _, err := s.db.In("default").Sandboxes(t.Context(), store.Filter{IncludeDeleted: true}, store.Page{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
