package engine_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// A server is stopped between the driver's answer and its own commit, past the end of its leases.
// Another one takes over. Whatever the first does when it wakes, none of its commits counts, and its
// instances are gone after one pass of the other.
func TestStoppedHolderNeverCommits(t *testing.T) {
	testkit.Proves(t, "O2")
	at := onPostgres(t)
	at.LeaseTTL = time.Second
	owners := names(testkit.Size(t, "i3.hits"))
	sleeper := start(t, "stopped", script{Place: at, Owners: owners, Point: "before-ready"})
	sleeper.tell(t)
	sleeper.stopped(t)

	other := at.open(t)
	first := other.live(t)
	if len(first) != len(owners) {
		t.Fatalf("the window was hit %d times, not %d", len(first), len(owners))
	}
	settled := other.takeOver(t, len(owners))
	for id, ids := range other.live(t) {
		if len(ids) != 1 || ids[0] == first[id][0] {
			t.Errorf("after one pass sandbox %s has %v; the stopped server had made %s", id, ids, first[id][0])
		}
	}

	if err := sleeper.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if stale, _ := sleeper.done(t); stale < len(owners) {
		t.Errorf("only %d of %d works of the woken server were refused as stale", stale, len(owners))
	}
	for _, before := range settled {
		after, err := other.db.Sandbox(t.Context(), before.ID)
		if err != nil {
			t.Fatal(err)
		}
		if after.Instance != before.Instance || after.State != sandbox.Running {
			t.Errorf("the woken server changed %s from %s to %s (%s)", after.ID, before.Instance, after.Instance, after.State)
		}
		other.one(t, after)
	}
}

// takeOver waits for the leases to run out, reconciles once, and returns the rows.
func (s *server) takeOver(t *testing.T, n int) (rows []sandbox.Sandbox) {
	t.Helper()
	for id := range s.live(t) {
		testkit.Eventually(t, 60*time.Second, func() error { return s.leaseIsFree(t, id) })
	}
	report, err := s.Reconcile(t.Context())
	if err != nil || report.Settled != n {
		t.Fatalf("reconcile: %+v, %v", report, err)
	}
	for id := range s.live(t) {
		sb, err := s.db.Sandbox(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, sb)
	}
	return rows
}

// leaseIsFree checks whether the lease can be taken, without keeping it.
func (s *server) leaseIsFree(t *testing.T, id string) error {
	grant, err := s.db.Leases().Lease(t.Context(), store.LeaseSandbox, id, "test")
	if err != nil || !grant.OK {
		return fmt.Errorf("lease of %s held by %s until %s: %w", id, grant.Lease.Holder, grant.Lease.Until, err)
	}
	return s.db.Leases().Release(t.Context(), grant.Lease)
}
