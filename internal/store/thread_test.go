package store_test

import (
	"database/sql"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// session is a row of the view sandbox_sessions.
type session struct {
	ThreadID, ChannelID, SandboxID, SessionID, Status string
	Paused, Resumed, Destroyed                        bool
}

func sessions(t testing.TB, db *sql.DB) (found []session) {
	t.Helper()
	rows, err := db.Query(`
		select thread_id, channel_id, sandbox_id, session_id, status, paused_at is not null, resumed_at is not null, destroyed_at is not null
		from sandbox_sessions order by created_at`)
	noError(t, err)
	defer rows.Close()
	for rows.Next() {
		var s session
		noError(t, rows.Scan(&s.ThreadID, &s.ChannelID, &s.SandboxID, &s.SessionID, &s.Status, &s.Paused, &s.Resumed, &s.Destroyed))
		found = append(found, s)
	}
	noError(t, rows.Err())
	return found
}

// thread creates the conversation of a thread and its sandbox's record.
func thread(t testing.TB, db *store.DB, key string) (store.Conversation, sandbox.Sandbox) {
	t.Helper()
	of := store.Thread{Workspace: "T1", Key: key, Channel: "C1"}
	c, made, err := db.In(acme).CreateConversation(t.Context(), store.Conversation{ID: of.ID(acme, 0), Template: "default", Sandbox: store.NewID(), OwnSandbox: true, Thread: of})
	noError(t, err)
	if !made {
		t.Fatalf("the thread %q exists", key)
	}
	in := intent(c.Owner().ID)
	in.Kind, in.NewID = c.Owner().Kind, c.Sandbox
	return c, intend(t, db.In(acme), in)
}

func TestThreadsHaveTheirView(t *testing.T) {
	testkit.Proves(t, "T2")
	onBoth(t, func(t *testing.T, h harness) {
		db, raw := h.open(t), h.rawDB(t)
		rows, err := raw.Query(`select * from sandbox_sessions`)
		noError(t, err)
		columns, err := rows.Columns()
		noError(t, err)
		noError(t, rows.Close())
		want := []string{"thread_id", "channel_id", "sandbox_id", "session_id", "preview_url", "preview_token", "preview_expires_at", "status",
			"paused_at", "resumed_at", "destroyed_at", "created_at", "updated_at"}
		if diff := cmp.Diff(want, columns[:len(want)]); diff != "" {
			t.Errorf("columns (-want +got):\n%s", diff)
		}
		c, sb := thread(t, db, "C1:17.5")
		row := session{ThreadID: "C1:17.5", ChannelID: "C1", SandboxID: sb.ID, Status: "creating"}
		expect := func(what string) {
			t.Helper()
			if diff := cmp.Diff([]session{row}, sessions(t, raw)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		expect("new")
		g := lease(t, db, sb.ID, "holder")
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin})
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-1"})
		row.Status = "active"
		expect("running")
		_, err = db.In(acme).Want(t.Context(), sb.ID, sandbox.WantStopped, "asked", "")
		noError(t, err)
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventStop, Instance: "i-1"})
		row.Status, row.Paused = "paused", true
		expect("stopping")
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventHalted, Instance: "i-1"})
		expect("stopped")
		_, err = db.In(acme).Want(t.Context(), sb.ID, sandbox.WantRunning, "asked", "")
		noError(t, err)
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventStart, Instance: "i-1"})
		row.Status = "resuming"
		expect("starting")
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-1"})
		row.Status, row.Resumed = "active", true
		expect("running again")
		for _, state := range append(slices.Clone(sandbox.States), "of a later version") {
			_, err := raw.Exec(`update sandboxes set state = $1 where id = $2`, state, sb.ID)
			noError(t, err)
			status := state.ThreadStatus()
			if status == "" {
				status = sandbox.Failed.ThreadStatus()
			}
			if got := sessions(t, raw); len(got) != 1 || got[0].Status != status {
				t.Errorf("%s is shown as %+v, want %s", state, got, status)
			}
		}
		_, err = db.In(acme).DeleteConversation(t.Context(), c.ID)
		noError(t, err)
		if got := sessions(t, raw); len(got) != 0 {
			t.Errorf("a deleted thread is shown as %+v", got)
		}
	})
}

// A key belongs to one thread of its tenant and workspace, however many servers create it at once.
func TestThreadKeyHasOneConversation(t *testing.T) {
	testkit.Proves(t, "T1")
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		made := make([]bool, 32)
		race(len(made), func(i int) {
			tenant := []store.TenantID{acme, "rival"}[i%2]
			of := store.Thread{Workspace: []string{"", "T1"}[i/2%2], Key: "C1:17.5"}
			c := store.Conversation{ID: of.ID(tenant, 0), Template: "default", Thread: of}
			if i >= len(made)/2 {
				c.ID = store.NewID() // as of a server that has counted a deleted one
			}
			got, created, err := dbs[i/4%2].In(tenant).CreateConversation(t.Context(), c)
			if err != nil || got.Thread != of || got.Tenant != tenant {
				t.Errorf("got %+v, %v", got, err)
			}
			made[i] = created
		})
		n := 0
		for _, created := range made {
			if created {
				n++
			}
		}
		if n != 4 {
			t.Errorf("%d threads were created for two tenants with two workspaces each", n)
		}
	})
}

func TestListOfThreads(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		in := db.In(acme)
		_, _, err := in.CreateConversation(t.Context(), store.Conversation{Template: "default"})
		noError(t, err)
		for _, th := range []store.Thread{{"T1", "a", "C1"}, {"T1", "b", "C2"}, {"", "a", "C1"}} {
			_, _, err := in.CreateConversation(t.Context(), store.Conversation{Template: "default", Thread: th, Account: "zoe"})
			noError(t, err)
		}
		for _, one := range []struct {
			of   store.ThreadFilter
			keys int
		}{{store.ThreadFilter{}, 3}, {store.ThreadFilter{Workspace: "T1"}, 2}, {store.ThreadFilter{Channel: "C1"}, 2}, {store.ThreadFilter{Workspace: "T2"}, 0}} {
			rows, _, err := in.Threads().List(t.Context(), one.of, store.Page{})
			noError(t, err)
			if len(rows) != one.keys {
				t.Errorf("%+v lists %d threads, want %d", one.of, len(rows), one.keys)
			}
		}
		for what, scope := range map[string]store.Scope{"another tenant": db.In("rival"), "another account": in.Within("tom")} {
			if _, err := scope.Threads().Get(t.Context(), store.Thread{Workspace: "T1", Key: "a"}); !errors.Is(err, fault.ErrNotFound) {
				t.Errorf("%s gets the thread: %v", what, err)
			}
		}
		if c, err := in.Within("zoe").Threads().Get(t.Context(), store.Thread{Workspace: "T1", Key: "a"}); err != nil || c.Thread.Channel != "C1" {
			t.Errorf("its account gets %+v, %v", c, err)
		}
	})
}
