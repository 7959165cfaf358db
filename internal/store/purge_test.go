package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// buried is a sandbox that was deleted and has ended.
func buried(t testing.TB, db *store.DB, owner string) sandbox.Sandbox {
	t.Helper()
	sb := intend(t, db.In(acme), intent(owner))
	_, err := db.In(acme).Delete(t.Context(), sb.ID, false, "unwanted", "request")
	noError(t, err)
	g := lease(t, db, sb.ID, "holder")
	commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventEnd})
	sb = commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventEnded})
	noError(t, db.Leases().Release(t.Context(), g.Lease))
	return sb
}

// The versions of a sandbox are to go once it has ended for good and is old enough, or as soon as somebody
// asks for it; once they are gone they are never to go again.
func TestVersionsOfWhatEndedAreToGo(t *testing.T) {
	testkit.Proves(t, "O1")
	withDB(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		living := intend(t, db.In(acme), intent("lives"))
		going := intend(t, db.In(acme), intent("goes"))
		_, err := db.In(acme).Delete(ctx, going.ID, false, "unwanted", "request") // its end is still to come
		noError(t, err)
		first, second := buried(t, db, "first"), buried(t, db, "second")
		due := func(age time.Duration) (ids []string) {
			t.Helper()
			for after := ""; ; {
				page, err := db.Versions().ListPurgeable(ctx, age, after, 1)
				noError(t, err)
				if len(page) == 0 {
					return ids
				}
				after = page[0].ID
				ids = append(ids, after)
			}
		}
		for _, c := range []struct {
			what string
			do   func() error
			age  time.Duration
			want []string
		}{
			{"young ones", nil, time.Hour, nil},
			{"kept for ever", nil, 0, nil},
			{"old ones", nil, time.Microsecond, []string{first.ID, second.ID}},
			{"unwanted", func() error { return db.Versions().MarkForPurge(ctx, second.ID) }, time.Hour, []string{second.ID}},
			{"unwanted, though kept for ever", nil, 0, []string{second.ID}},
			{"of those that have not ended", func() error { return db.Versions().MarkForPurge(ctx, living.ID) }, time.Hour, []string{second.ID}},
			{"of those whose end is to come", func() error { return db.Versions().MarkPurged(ctx, going.ID) }, time.Microsecond, []string{first.ID, second.ID}},
			{"gone", func() error { return db.Versions().MarkPurged(ctx, second.ID) }, time.Microsecond, []string{first.ID}},
			{"gone, and unwanted again", func() error { return db.Versions().MarkForPurge(ctx, second.ID) }, time.Microsecond, []string{first.ID}},
		} {
			if c.do != nil {
				noError(t, c.do())
			}
			if got := due(c.age); !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, not %v", c.what, got, c.want)
			}
		}
		if sb, err := db.Sandbox(ctx, living.ID); err != nil || sb.Synced != living.Synced {
			t.Errorf("one that lives: %+v, %v", sb.Synced, err)
		}
	})
}

// Beside a sandbox are those that live, and those that were deleted after it and have versions left.
func TestSandboxesBesideOne(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		living := intend(t, db.In(acme), intent("lives"))
		intend(t, db.In("other"), intent("elsewhere"))
		first, second, third := buried(t, db, "same"), buried(t, db, "same"), buried(t, db, "same")
		noError(t, db.Versions().MarkPurged(t.Context(), third.ID))
		for _, c := range []struct {
			of   sandbox.Sandbox
			want []string
		}{
			{first, []string{living.ID, second.ID}},
			{second, []string{living.ID}},
			{living, nil},
		} {
			var got []string
			for after := ""; ; {
				page, err := db.Versions().ListSharingPrefix(t.Context(), c.of, after, 1)
				noError(t, err)
				if len(page) == 0 {
					break
				}
				after = page[0].ID
				got = append(got, after)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("beside %s: %v, not %v", c.of.Owner.ID, got, c.want)
			}
		}
	})
}
