package store_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestIntendRecordsTheSandboxAsAsked(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		in := store.SandboxRequest{
			Kind: sandbox.OwnerSandbox, Owner: "web", Name: "web", Host: "north",
			Spec: sandbox.Spec{
				Template: "default", Driver: "fake", Profile: "lite",
				Env: map[string]string{"A": "1"}, Metadata: map[string]string{"team": "zoë"},
			},
			Want: sandbox.WantRunning, Reason: "first use", Actor: "request",
		}
		sb, created, err := s.RequestSandbox(t.Context(), in)
		noError(t, err)
		if !created {
			t.Error("created is false for a new owner")
		}
		want := sandbox.Sandbox{
			ID: sb.ID, Name: "web", Host: "north", Spec: in.Spec,
			Owner: sandbox.Owner{Tenant: "acme", Kind: sandbox.OwnerSandbox, ID: "web"},
			State: sandbox.Pending, Want: sandbox.WantRunning,
			CreatedAt: sb.CreatedAt, ActiveAt: sb.CreatedAt, DueAt: sb.CreatedAt,
		}
		near(t, "created_at", sb.CreatedAt, time.Now())
		for name, read := range map[string]func() (sandbox.Sandbox, error){
			"Intend":  func() (sandbox.Sandbox, error) { return sb, nil },
			"ByID":    func() (sandbox.Sandbox, error) { return s.ByID(t.Context(), sb.ID) },
			"ByName":  func() (sandbox.Sandbox, error) { return s.ByName(t.Context(), "web") },
			"ByOwner": func() (sandbox.Sandbox, error) { return s.ByOwner(t.Context(), sandbox.OwnerSandbox, "web") },
			"Sandbox": func() (sandbox.Sandbox, error) { return db.Sandbox(t.Context(), sb.ID) },
		} {
			got, err := read()
			noError(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

func TestIntendOfOneOwnerByManyMakesOneRow(t *testing.T) {
	testkit.Proves(t, "O1", "O2")
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		for _, owner := range names(5, "owner") {
			var mu sync.Mutex
			ids, created := map[string]bool{}, 0
			race(32, func(i int) {
				sb, fresh, err := dbs[i%2].In(acme).RequestSandbox(t.Context(), intent(owner))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[sb.ID] = true
				if fresh {
					created++
				}
			})
			if len(ids) != 1 || created != 1 {
				t.Errorf("%s: %d sandboxes, created %d times; want one of each", owner, len(ids), created)
			}
		}
		if n, err := dbs[0].In(acme).Count(t.Context()); err != nil || n != 5 {
			t.Errorf("tenant has %d sandboxes (%v), want 5", n, err)
		}
	})
}

func TestIntendAgainSetsWantAndUse(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		before := intend(t, s, intent("c1"))
		in := intent("c1")
		in.Want, in.Spec.Template = sandbox.WantStopped, "other"
		after, created, err := s.RequestSandbox(t.Context(), in)
		noError(t, err)
		if created || after.ID != before.ID || after.Want != sandbox.WantStopped || after.Spec.Template != "default" {
			t.Errorf("second intent gave %+v, created %v", after, created)
		}
		if !after.ActiveAt.After(before.ActiveAt) || !after.DueAt.After(before.DueAt) {
			t.Errorf("use and due time did not move: %v, %v", after.ActiveAt, after.DueAt)
		}
	})
}

func TestIntendRefusedByAcceptChangesNothing(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		before := intend(t, s, intent("c1"))
		in := intent("c1")
		in.Want = sandbox.WantStopped
		in.Accept = func(sb sandbox.Sandbox) error {
			return fault.Errorf("compare spec", api.CodeSpecMismatch, "template is %s", sb.Spec.Template)
		}
		_, _, err := s.RequestSandbox(t.Context(), in)
		wantCode(t, err, api.CodeSpecMismatch)
		after, err := s.ByID(t.Context(), before.ID)
		noError(t, err)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("row changed (-before +after):\n%s", diff)
		}
	})
}

func TestIntendWithChosenID(t *testing.T) {
	const mine, theirs, gone = "0190a6f0-0000-7000-8000-000000000001", "0190a6f0-0000-7000-8000-000000000002", "0190a6f0-0000-7000-8000-000000000003"
	cases := []struct {
		name      string
		id, owner string
		want      api.Code // empty: granted
	}{
		{"the same again", mine, "mine", ""},
		{"unknown id and owner", "00000000-0000-0000-0000-000000000000", "new", ""},
		{"id of another owner", mine, "other", api.CodeConflict},
		{"id of another tenant, owner has one", theirs, "mine", api.CodeNameTaken},
		{"id of another tenant", theirs, "scoped", ""},
		{"id of another tenant again", theirs, "scoped", ""},
		{"id of another tenant, other owner", theirs, "other", api.CodeConflict},
		{"deleted id", gone, "gone", api.CodeDeleted},
		{"deleted id, another owner", gone, "new", api.CodeDeleted},
		{"unknown id, owner has one", "ffffffff-ffff-4fff-8fff-ffffffffffff", "mine", api.CodeNameTaken},
	}
	withDB(t, func(t *testing.T, db *store.DB) {
		with := func(s store.Scope, id, owner string) (sandbox.Sandbox, error) {
			in := intent(owner)
			in.ID = id
			sb, _, err := s.RequestSandbox(t.Context(), in)
			return sb, err
		}
		for _, made := range []struct {
			tenant    store.TenantID
			id, owner string
		}{{acme, mine, "mine"}, {"rival", theirs, "theirs"}, {acme, gone, "gone"}} {
			_, err := with(db.In(made.tenant), made.id, made.owner)
			noError(t, err)
		}
		_, err := db.In(acme).Delete(t.Context(), gone, false, "unwanted", "request")
		noError(t, err)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				sb, err := with(db.In(acme), c.id, c.owner)
				if c.want != "" {
					wantCode(t, err, c.want)
					return
				}
				noError(t, err)
				if sandbox.PublicID(sb.ID) != c.id || sb.Owner.ID != c.owner {
					t.Errorf("got sandbox %s of %s", sb.ID, sb.Owner)
				}
			})
		}
	})
}

func TestIntendWithAnIDForTheNewOne(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		in := intent("c1")
		in.NewID = store.NewID()
		made, created, err := s.RequestSandbox(t.Context(), in)
		noError(t, err)
		if !created || made.ID != in.NewID {
			t.Errorf("made %s, created %v, want %s", made.ID, created, in.NewID)
		}
		in.NewID = store.NewID()
		found, created, err := s.RequestSandbox(t.Context(), in)
		noError(t, err)
		if created || found.ID != made.ID {
			t.Errorf("got %s, created %v, want the one that is there, %s", found.ID, created, made.ID)
		}
		_, err = s.Delete(t.Context(), made.ID, false, "unwanted", "request")
		noError(t, err)
		in.NewID = made.ID // the work is done again after its effect was deleted
		_, _, err = s.RequestSandbox(t.Context(), in)
		wantCode(t, err, api.CodeDeleted)
	})
}

func TestIntendRefusesTakenNameAndBadOwner(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		named := func(owner string) error {
			in := intent(owner)
			in.Name = "web"
			_, _, err := s.RequestSandbox(t.Context(), in)
			return err
		}
		noError(t, named("a"))
		wantCode(t, named("b"), api.CodeNameTaken)
		wantCode(t, named(""), api.CodeInvalidID)
		sb, err := s.ByName(t.Context(), "web")
		noError(t, err)
		_, err = s.Delete(t.Context(), sb.ID, false, "unwanted", "request")
		noError(t, err)
		wantCode(t, named("b"), api.CodeDeleting)
		end(t, db, sb.ID)
		noError(t, named("b"))
	})
}

func TestTenantsDoNotSeeEachOther(t *testing.T) {
	testkit.Proves(t, "E2")
	withDB(t, func(t *testing.T, db *store.DB) {
		in := intent("c1")
		in.Name = "web"
		sb := intend(t, db.In(acme), in)
		rival := db.In("rival")
		if rival.Tenant() != "rival" {
			t.Errorf("scope is of tenant %q", rival.Tenant())
		}
		_, err := rival.ByID(t.Context(), sb.ID)
		wantCode(t, err, api.CodeNotFound)
		_, err = rival.ByIDOrDeleted(t.Context(), sb.ID)
		wantCode(t, err, api.CodeNotFound)
		_, err = rival.ByName(t.Context(), "web")
		wantCode(t, err, api.CodeNotFound)
		_, err = rival.ByOwner(t.Context(), sandbox.OwnerConversation, "c1")
		wantCode(t, err, api.CodeNotFound)
		_, err = rival.Want(t.Context(), sb.ID, sandbox.WantGone, "", "")
		wantCode(t, err, api.CodeNotFound)
		_, err = rival.Delete(t.Context(), sb.ID, false, "", "")
		wantCode(t, err, api.CodeNotFound)
		_, _, err = rival.History(t.Context(), sb.ID, 0, 0)
		wantCode(t, err, api.CodeNotFound)
		if items, _, err := rival.Sandboxes(t.Context(), store.Filter{IncludeDeleted: true}, store.Page{}); err != nil || len(items) > 0 {
			t.Errorf("rival lists %d sandboxes (%v)", len(items), err)
		}
		other := intend(t, rival, in) // the same owner and name, another tenant
		if other.ID == sb.ID {
			t.Error("two tenants share a sandbox")
		}
		noError(t, rival.Touch(t.Context(), sb.ID))
		after, err := db.Sandbox(t.Context(), sb.ID)
		noError(t, err)
		if diff := cmp.Diff(sb, after); diff != "" {
			t.Errorf("rival changed the row (-before +after):\n%s", diff)
		}
	})
}

func TestTombstoneIsNeverRevived(t *testing.T) {
	testkit.Proves(t, "O1")
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		var revived, deletes atomic.Int64
		for range 10 {
			sb := intend(t, dbs[0].In(acme), intent("c1"))
			race(8, func(i int) {
				s := dbs[i%2].In(acme)
				if i < 2 {
					if _, err := s.Delete(t.Context(), sb.ID, false, "unwanted", "request"); err != nil {
						t.Error(err)
					}
					deletes.Add(1)
					return
				}
				_, _, err := s.RequestSandbox(t.Context(), intent("c1"))
				if err != nil && !errors.Is(err, fault.ErrDeleting) {
					t.Error(err)
				}
				if _, err := s.Want(t.Context(), sb.ID, sandbox.WantRunning, "", ""); err != nil && !errors.Is(err, fault.ErrDeleted) {
					t.Error(err)
				}
			})
			grave, err := dbs[0].Sandbox(t.Context(), sb.ID)
			noError(t, err)
			if !grave.Deleted() || grave.Want != sandbox.WantGone {
				revived.Add(1)
			}
			_, err = dbs[0].In(acme).ByID(t.Context(), sb.ID)
			wantCode(t, err, api.CodeDeleted)
			end(t, dbs[0], sb.ID)
		}
		if revived.Load() > 0 || deletes.Load() != 20 {
			t.Errorf("%d of %d tombstones were revived", revived.Load(), deletes.Load())
		}
	})
}
