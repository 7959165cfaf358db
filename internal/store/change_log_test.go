package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// read reads the changes after a position, each as a short text.
func readChanges(t testing.TB, db *store.DB, s store.Scope, after store.LogPosition) (texts []string, next store.LogPosition) {
	t.Helper()
	changes, next, err := store.NewChangeLog(db).Read(t.Context(), s, after)
	noError(t, err)
	for _, c := range changes {
		text := strings.TrimSpace(c.Kind + " " + c.State)
		if c.Deleted {
			text += " deleted"
		}
		texts = append(texts, text)
	}
	return texts, next
}

func logEnd(t testing.TB, db *store.DB) store.LogPosition {
	t.Helper()
	end, err := store.NewChangeLog(db).End(t.Context())
	noError(t, err)
	return end
}

// Each change is in the log once, of its tenant and account alone, and a reader can stop after any of them.
func TestChangesAreLogged(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		db, s := dbs[0], dbs[0].In(acme)
		start := logEnd(t, dbs[1])
		sb := intend(t, s, intent("owner"))
		l := lease(t, db, sb.ID, "holder").Lease
		commit(t, db, l, sandbox.Change{Event: sandbox.EventBegin, Reason: "first use", Actor: "request"})
		noError(t, db.SetDue(t.Context(), l, store.Due{At: time.Now(), Want: sandbox.WantRunning}, time.Now())) // no change
		c := talk(t, db)
		begin(t, db, asking(c))
		_, err := s.Delete(t.Context(), sb.ID, true, "enough", "request")
		noError(t, err)
		got, next := readChanges(t, dbs[1], dbs[1].In(acme), start)
		want := []string{"sandbox pending", "sandbox creating", "conversation", "turn running", "sandbox creating deleted"}
		if !slices.Equal(got, want) {
			t.Errorf("the log has %q", got)
		}
		if again, _ := readChanges(t, db, s, next); len(again) > 0 {
			t.Errorf("again %q", again)
		}
		all, _, err := store.NewChangeLog(db).Read(t.Context(), s, start)
		noError(t, err)
		for i, c := range all {
			if rest, _ := readChanges(t, dbs[1], dbs[1].In(acme), c.Position); !slices.Equal(rest, want[i+1:]) {
				t.Errorf("after change %d: %q", i, rest)
			}
		}
		for _, other := range []store.Scope{db.In("other"), s.Within(store.NewID())} {
			if seen, _ := readChanges(t, db, other, start); len(seen) > 0 {
				t.Errorf("another caller sees %q", seen)
			}
		}
	})
}

// Transactions may commit in another order than they began. No reader misses the one that commits last.
func TestReaderWaitsForAnEarlierTransaction(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		if h.engine == "sqlite" {
			return // its transactions are one after the other
		}
		db := h.open(t)
		s := db.In(acme)
		late, soon := intend(t, s, intent("late")), intend(t, s, intent("soon"))
		at := logEnd(t, db)
		tx, err := h.rawDB(t).Begin()
		noError(t, err)
		defer tx.Rollback()
		_, err = tx.Exec(`update sandboxes set name = 'late' where id = $1`, late.ID)
		noError(t, err)
		_, err = h.rawDB(t).Exec(`update sandboxes set name = 'soon' where id = $1`, soon.ID)
		noError(t, err)
		before, at := readChanges(t, db, s, at)
		noError(t, tx.Commit())
		after, _ := readChanges(t, db, s, at)
		if len(before)+len(after) != 2 {
			t.Errorf("before the commit %q, after it %q", before, after)
		}
	})
}

// A reader that was away for too long, or comes from another database, is sent to the lists.
func TestReaderTooFarBehindIsSentToTheLists(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		s, log := db.In(acme), store.NewChangeLog(db)
		intend(t, s, intent("first"))
		at := logEnd(t, db)
		for name, p := range map[string]store.LogPosition{
			"long ago":         {From: at.From, To: at.To, At: at.At.Add(-time.Hour)},
			"of the future":    {From: at.From, To: at.To, At: at.At.Add(time.Hour)},
			"another database": {From: at.From, To: at.To + 1_000_000, At: at.At},
		} {
			if _, next, err := log.Read(t.Context(), s, p); !errors.Is(err, store.ErrTooFarBehind) || next.To < at.To {
				t.Errorf("%s: %v, %v", name, next, err)
			}
		}
		const many = 5001
		text := `insert into change_log (tenant, account, kind, id, sandbox, conversation, state, deleted)
			with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) select 'acme', '', 'sandbox', 'x', 'x', '', 'running', false from n`
		_, err := h.rawDB(t).Exec(fmt.Sprintf(text, many))
		noError(t, err)
		if _, _, err := log.Read(t.Context(), s, at); !errors.Is(err, store.ErrTooFarBehind) {
			t.Errorf("%d changes: %v", many, err)
		}
		old := `update change_log set at = at - 3600000000`
		if h.engine == "postgres" {
			old = `update change_log set at = at - interval '1 hour'`
		}
		_, err = h.rawDB(t).Exec(old)
		noError(t, err)
		intend(t, s, intent("second"))
		if removed, err := log.Prune(t.Context()); err != nil || removed < many {
			t.Errorf("%d were removed, %v", removed, err)
		}
		if left, _ := readChanges(t, db, s, at); len(left) != 1 {
			t.Errorf("left are %q", left)
		}
	})
}
