package store_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// A deleted sandbox keeps its owner and its name until nothing of it is left; its place in the quota is
// free at once.
func TestOwnerIsTakenUntilTheDeletedSandboxIsGone(t *testing.T) {
	testkit.Proves(t, "O1", "O6")
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		in := store.SandboxRequest{Kind: sandbox.OwnerSandbox, Owner: "web", Name: "web", Cap: 1, Want: sandbox.WantRunning, Spec: sandbox.Spec{Template: "default", Driver: "fake"}}
		old := intend(t, s, in)
		_, err := s.Delete(t.Context(), old.ID, false, "unwanted", "request")
		noError(t, err)
		wantUsed(t, s, store.QuotaSandboxes, 0)
		got, created, err := s.RequestSandbox(t.Context(), in)
		wantCode(t, err, api.CodeDeleting)
		if created || got.ID != old.ID || !got.Deleted() {
			t.Errorf("the owner is taken by %+v", got)
		}
		for name, find := range map[string]func() (sandbox.Sandbox, error){
			"owner": func() (sandbox.Sandbox, error) { return s.ByOwnerOrDeleting(t.Context(), in.Kind, in.Owner) },
			"name":  func() (sandbox.Sandbox, error) { return s.ByNameOrDeleting(t.Context(), "web") },
		} {
			if sb, err := find(); err != nil || sb.ID != old.ID {
				t.Errorf("found by its %s: %+v, %v", name, sb, err)
			}
		}
		other := in
		other.Owner, other.Name = "other", ""
		intend(t, s, other) // the quota has room for it
		noError(t, second(s.Delete(t.Context(), intend(t, s, other).ID, true, "", "")))
		end(t, db, old.ID)
		if _, err := s.ByOwnerOrDeleting(t.Context(), in.Kind, in.Owner); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("gone, and the owner is taken: %v", err)
		}
		if sb := intend(t, s, in); sb.ID == old.ID {
			t.Error("the tombstone was revived")
		}
	})
}

func second[T any](_ T, err error) error { return err }

// However many race for the owner of a deleted sandbox, none gets a new one before the old one is gone.
func TestRaceForAnOwnerThatIsBeingDeleted(t *testing.T) {
	testkit.Proves(t, "O1")
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		old := intend(t, dbs[0].In(acme), intent("c1"))
		noError(t, second(dbs[0].In(acme).Delete(t.Context(), old.ID, false, "", "")))
		var made, told atomic.Int64
		race(8, func(i int) {
			_, created, err := dbs[i%2].In(acme).RequestSandbox(t.Context(), intent("c1"))
			if errors.Is(err, fault.ErrDeleting) {
				told.Add(1)
			}
			if created {
				made.Add(1)
			}
		})
		if made.Load() != 0 || told.Load() != 8 {
			t.Errorf("%d made, %d told to wait", made.Load(), told.Load())
		}
		end(t, dbs[0], old.ID)
		race(8, func(i int) {
			_, created, err := dbs[i%2].In(acme).RequestSandbox(t.Context(), intent("c1"))
			if err != nil {
				t.Error(err)
			}
			if created {
				made.Add(1)
			}
		})
		if made.Load() != 1 {
			t.Errorf("%d made", made.Load())
		}
	})
}

// Servers of before freed an owner at the delete. What they left is kept as it is, and ends by itself.
func TestOwnersWithASuccessorOfBefore(t *testing.T) {
	testkit.Proves(t, "X3")
	before(t, 4, func(t *testing.T, h harness, old func(string, ...any)) {
		for _, id := range []string{"first", "other", "alone"} {
			old(h.oldInsert(id, acme, true))
		}
		old(h.oldInsert("second", acme, false))
		old(`update sandboxes set owner_id = 'p', name = 'p' where id in ('first', 'other', 'second')`)
		db := h.open(t) // migrates
		s := db.In(acme)
		got, err := s.ByOwnerOrDeleting(t.Context(), sandbox.OwnerProject, "p")
		if err != nil || got.ID != "second" {
			t.Errorf("%+v, %v", got, err)
		}
		got, err = s.ByOwnerOrDeleting(t.Context(), sandbox.OwnerProject, "alone") // nothing took its place
		if err != nil || got.ID != "alone" || !got.Deleted() {
			t.Errorf("%+v, %v", got, err)
		}
		if wrong, _, err := db.Check(t.Context()); err != nil || len(wrong) > 0 {
			t.Errorf("%v, %v", wrong, err)
		}
		noError(t, second(s.Delete(t.Context(), "second", true, "", "")))
		in := store.SandboxRequest{Kind: sandbox.OwnerProject, Owner: "p", Want: sandbox.WantRunning}
		wantCode(t, second3(s.RequestSandbox(t.Context(), in)), api.CodeDeleting)
		end(t, db, "second")
		noError(t, second3(s.RequestSandbox(t.Context(), in)))
	})
}

func second3[A, B any](_ A, _ B, err error) error { return err }
