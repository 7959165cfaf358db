package store_test

import (
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// project is a row of the view in words, whatever the engine's types.
type project struct {
	ID, ProjectID, TenantID, SandboxID, Status string
	Started, Checked                           bool
	Error                                      *string
	Metadata                                   string
}

func projects(t testing.TB, db *sql.DB) (found []project) {
	t.Helper()
	rows, err := db.Query(`
		select id, project_id, tenant_id, sandbox_id, status, started_at is not null, health_checked_at is not null, error_message, metadata_json
		from project_sandboxes order by created_at`)
	noError(t, err)
	defer rows.Close()
	for rows.Next() {
		var p project
		noError(t, rows.Scan(&p.ID, &p.ProjectID, &p.TenantID, &p.SandboxID, &p.Status, &p.Started, &p.Checked, &p.Error, &p.Metadata))
		found = append(found, p)
	}
	noError(t, rows.Err())
	return found
}

func projectIntent(owner string) store.SandboxRequest {
	in := intent(owner)
	in.Kind = sandbox.OwnerProject
	return in
}

func TestProjectsHaveTheirView(t *testing.T) {
	testkit.Proves(t, "P5")
	onBoth(t, func(t *testing.T, h harness) {
		db, raw := h.open(t), h.rawDB(t)
		rows, err := raw.Query(`select * from project_sandboxes`)
		noError(t, err)
		columns, err := rows.Columns()
		noError(t, err)
		noError(t, rows.Close())
		if diff := cmp.Diff([]string{
			"id", "project_id", "tenant_id", "sandbox_id", "status", "created_at", "started_at", "last_accessed_at",
			"health_checked_at", "error_message", "metadata_json",
		}, columns); diff != "" {
			t.Errorf("columns (-want +got):\n%s", diff)
		}
		in := projectIntent("p1")
		in.Spec.Metadata = map[string]string{"team": "zoë"}
		sb := intend(t, db.In(acme), in)
		intend(t, db.In(acme), intent("p1")) // a conversation's is no project's
		_, err = db.In(acme).Delete(t.Context(), intend(t, db.In(acme), projectIntent("deleted")).ID, false, "", "")
		noError(t, err)
		want := project{ID: sb.ID, ProjectID: "p1", TenantID: "acme", SandboxID: sb.ID, Status: "PENDING", Metadata: `{"team":"zoë"}`}
		expect := func(what string) {
			t.Helper()
			if diff := cmp.Diff([]project{want}, projects(t, raw)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		expect("new")
		g := lease(t, db, sb.ID, "holder")
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin})
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-1"})
		want.Status, want.Started, want.Checked = "RUNNING", true, true
		expect("running")
		noError(t, db.RecordFailure(t.Context(), g.Lease, sandbox.Failure{Code: api.CodeDriverRefused, Message: "the disk\x00is full"}, store.Due{}, time.Time{}))
		want.Error = ptr("the disk\uFFFDis full")
		expect("stumbled")
		failed := sandbox.Failure{Code: api.CodeUnhealthy, Message: "the disk is full"}
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventFail, Instance: "i-1", Failure: &failed})
		want.Status, want.Error = "ERROR", ptr("the disk is full")
		expect("failed")
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin}) // which clears the failure
		want.Status, want.Error = "CREATING", nil
		expect("tried again")
	})
}

func ptr[T any](v T) *T { return &v }

// The view says of every state what Berth says of it.
func TestViewKnowsEveryState(t *testing.T) {
	testkit.Proves(t, "P5")
	onBoth(t, func(t *testing.T, h harness) {
		db, raw := h.open(t), h.rawDB(t)
		sb := intend(t, db.In(acme), projectIntent("p1"))
		for _, state := range append(slices.Clone(sandbox.States), "of a later version") {
			_, err := raw.Exec(`update sandboxes set state = $1 where id = $2`, state, sb.ID)
			noError(t, err)
			want := state.ProjectStatus()
			if want == "" {
				want = sandbox.Failed.ProjectStatus()
			}
			if got := projects(t, raw); len(got) != 1 || got[0].Status != want {
				t.Errorf("%s is shown as %+v, want %s", state, got, want)
			}
			var n int
			noError(t, raw.QueryRow(`select count(*) from project_sandboxes where status = $1`, want).Scan(&n))
			if n != 1 {
				t.Errorf("%s is not found as %s", state, want)
			}
		}
	})
}

func TestProjectHasOneRowInTheView(t *testing.T) {
	testkit.Proves(t, "P5")
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		race(16, func(i int) {
			tenant := []store.TenantID{acme, "rival"}[i%2] // who may both call a project p1
			if _, _, err := dbs[i/2%2].In(tenant).RequestSandbox(t.Context(), projectIntent("p1")); err != nil {
				t.Error(err)
			}
		})
		found := projects(t, h.rawDB(t))
		if len(found) != 2 || found[0].SandboxID == found[1].SandboxID || found[0].TenantID == found[1].TenantID {
			t.Errorf("two tenants' projects are %+v", found)
		}
	})
}
