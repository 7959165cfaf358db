package workspacesync_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspacesync"
)

// pruned is a syncer with policies, whose leases are those of the database.
func pruned(t *testing.T, policy func(sandbox.Sandbox) (last, daily int)) *graves {
	g := newGraves(t)
	plan := g.Opts().Plan
	g.Opts().Plan = func(sb sandbox.Sandbox) workspacesync.Plan {
		p := plan(sb)
		p.KeepLast, p.KeepDaily = policy(sb)
		return p
	}
	g.Opts().Metrics = telemetry.NewMetrics("test")
	g.Opts().IfFree = func(ctx context.Context, id string, do func(context.Context, sandbox.Sandbox) error) (bool, error) {
		grant, err := g.db.Leases().Lease(ctx, store.LeaseSandbox, id, "pruner")
		if err != nil || !grant.OK {
			return false, err
		}
		return true, errors.Join(do(ctx, grant.Sandbox), g.db.Leases().Release(ctx, grant.Lease))
	}
	return g
}

// saves makes further versions and records the last as the sandbox's base.
func (g *graves) saves(sb sandbox.Sandbox, n int) sandbox.Sandbox {
	g.Helper()
	for i := range n {
		g.write(sb, "f", fmt.Sprint(sb.Synced.Version, i))
		sb = g.save(sb)
	}
	return g.recorded(sb)
}

func (g *graves) recorded(sb sandbox.Sandbox) sandbox.Sandbox {
	g.Helper()
	grant, err := g.db.Leases().Lease(g.Context(), store.LeaseSandbox, sb.ID, "holder")
	if err == nil {
		_, err = g.db.Syncs().RecordSync(g.Context(), grant.Lease, sb.Synced, time.Time{})
	}
	if err == nil {
		err = g.db.Leases().Release(g.Context(), grant.Lease)
	}
	if err != nil {
		g.Fatal(err)
	}
	return sb
}

func (g *graves) versions(sb sandbox.Sandbox) (ids []string) {
	g.Helper()
	for v, err := range g.Repo(sb).Versions(g.Context()) {
		if err != nil {
			g.Fatal(err)
		}
		ids = append(ids, v.ID)
	}
	return ids
}

func (g *graves) hasVersions(sb sandbox.Sandbox, n int) {
	g.Helper()
	if got := g.versions(sb); len(got) != n {
		g.Errorf("%s has %d versions, not %d", sb.Owner.ID, len(got), n)
	}
	if v, err := g.Repo(sb).Verify(g.Context()); err != nil || len(v.Problems) > 0 {
		g.Errorf("%+v, %v", v, err)
	}
}

func (g *graves) pruneAll() {
	g.Helper()
	if err := g.PruneAll(g.Context()); err != nil {
		g.Fatal(err)
	}
}

// Old versions go by the policy of each sandbox, under its lease; what has no policy, or is deleted, keeps all. Bytes
// go once they have waited for the grace, and both are counted.
func TestPruneByPolicy(t *testing.T) {
	testkit.Proves(t, "S17")
	g := pruned(t, func(sb sandbox.Sandbox) (int, int) {
		switch sb.Owner.ID {
		case "two":
			return 2, 0
		case "daily":
			return 0, 7
		}
		return 0, 0
	})
	two, daily, all := g.saves(g.lives("two"), 5), g.saves(g.lives("daily"), 5), g.saves(g.lives("all"), 5)
	grant, err := g.db.Leases().Lease(t.Context(), store.LeaseSandbox, two.ID, "somebody")
	if err != nil || !grant.OK {
		t.Fatal(err)
	}
	g.pruneAll()
	g.hasVersions(two, 6) // it is being worked on
	g.hasVersions(daily, 1)
	g.hasVersions(all, 6)
	if err := g.db.Leases().Release(t.Context(), grant.Lease); err != nil {
		t.Fatal(err)
	}
	g.pruneAll()
	g.hasVersions(two, 2)
	if got := g.versions(two); got[0] != two.Synced.Version {
		t.Errorf("the newest is gone: %q", got)
	}
	g.Opts().Grace = time.Nanosecond
	g.pruneAll()
	g.hasVersions(two, 2)
	g.hasVersions(daily, 1)
	w := httptest.NewRecorder()
	g.Opts().Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if text := w.Body.String(); !strings.Contains(text, "berth_versions_pruned_total 9") || strings.Contains(text, "berth_versions_pruned_bytes_total 0\n") {
		t.Errorf("%s", text)
	}
	gone := g.dies(g.saves(two, 4))
	g.pruneAll()
	g.hasVersions(gone, 6)
}

// A prefix of several sandboxes is pruned once, by the policy that keeps most. What one of them was last the same as
// is kept, however old, and one that keeps everything keeps it for all.
func TestPruneOfASharedWorkspace(t *testing.T) {
	testkit.Proves(t, "S17")
	policies := map[string]int{"one": 1, "three": 3}
	g := pruned(t, func(sb sandbox.Sandbox) (int, int) { return policies[sb.Owner.ID], 0 })
	g.pattern, g.shared = "team/", true
	one := g.recorded(g.lives("one"))
	old := one.Synced.Version
	three := g.saves(g.lives("three"), 6)
	policies["other"] = 0
	other := g.recorded(g.lives("other"))
	before := len(g.versions(one))
	g.pruneAll()
	g.hasVersions(one, before)
	policies["other"] = 1
	g.pruneAll()
	g.hasVersions(one, 4)
	if got := g.versions(three); got[3] != old || got[0] != other.Synced.Version {
		t.Errorf("%q: the base %s, or the newest %s, is gone", got, old, other.Synced.Version)
	}
	// The sandbox with the old base goes on from it, and loses nothing.
	g.write(one, "late", "work")
	one = g.save(one)
	g.says(one, "late", "work")
	g.says(one, "of", other.ID)
}
