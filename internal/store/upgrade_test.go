package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

// before is a database with an earlier schema, and a way to run the statements of the servers of that time.
func before(t *testing.T, schema int64, test func(t *testing.T, h harness, old func(text string, args ...any))) {
	for engine, opts := range map[string]store.Options{
		"sqlite":   {DataDir: t.TempDir(), LeaseTTL: long},
		"postgres": {DatabaseURL: pgtest.New(t).URL, LeaseTTL: long},
	} {
		t.Run(engine, func(t *testing.T) {
			h := harness{engine, opts}
			noError(t, store.MigrateTo(t.Context(), opts, schema))
			raw := h.rawDB(t)
			test(t, h, func(text string, args ...any) {
				t.Helper()
				_, err := raw.Exec(text, args...)
				noError(t, err)
			})
		})
	}
}

// oldInsert and oldCommit are what servers of schema 1 wrote, with a time that both engines take.
func (h harness) oldInsert(id string, tenant store.TenantID, deleted bool) string {
	now, gone := fmt.Sprint(time.Now().UnixMicro()), "null"
	if h.engine == "postgres" {
		now = "now()"
	}
	if deleted {
		gone = now
	}
	return fmt.Sprintf(`
		insert into sandboxes (id, tenant, owner_kind, owner_id, name, template, driver, profile, env, metadata, host,
			state, want, generation, incarnation, instance, synced_version, synced_incarnation, changes,
			created_at, active_at, due_at, deleted_at)
		values ('%[1]s', '%[2]s', 'project', '%[1]s', '', 'default', 'fake', '', '{}', '{}', '',
			'pending', 'running', 0, 0, '', '', 0, 1, %[3]s, %[3]s, %[3]s, %[4]s)`, id, tenant, now, gone)
}

const oldCommit = `update sandboxes set state = 'running', instance = 'i-1', incarnation = 1, failure = null, changes = changes + 1 where id = $1`

func TestRowsOfTheEarlierSchemaAreKept(t *testing.T) {
	testkit.Proves(t, "X3")
	before(t, 1, func(t *testing.T, h harness, old func(string, ...any)) {
		for i, owner := range names(5, "old") {
			old(h.oldInsert(owner, []store.TenantID{acme, "rival"}[i%2], i == 4))
		}
		old(oldCommit, "old-000")
		db := h.open(t) // migrates
		sb, err := db.Sandbox(t.Context(), "old-000")
		noError(t, err)
		want := sandbox.Sandbox{
			ID: "old-000", Owner: sandbox.Owner{Tenant: "acme", Kind: sandbox.OwnerProject, ID: "old-000"},
			Spec: sandbox.Spec{Template: "default", Driver: "fake"}, State: sandbox.Running, Want: sandbox.WantRunning,
			Incarnation: 1, Instance: "i-1", CreatedAt: sb.CreatedAt, ActiveAt: sb.CreatedAt, DueAt: sb.CreatedAt,
		}
		if diff := cmp.Diff(want, sb); diff != "" {
			t.Errorf("row (-want +got):\n%s", diff)
		}
		wantUsed(t, db.In(acme), store.QuotaSandboxes, 2) // the tombstone is not counted
		wantUsed(t, db.In("rival"), store.QuotaSandboxes, 2)
		if tryIntend(t, db.In(acme), capped("new", 2)) == nil {
			t.Error("what was there before does not count")
		}
		_, err = db.In(acme).Delete(t.Context(), sb.ID, false, "", "")
		noError(t, err)
		wantUsed(t, db.In(acme), store.QuotaSandboxes, 1)
		if got := projects(t, h.rawDB(t)); len(got) != 3 || got[0].Error != nil {
			t.Errorf("projects are %+v", got)
		}
	})
}

// While replicas are upgraded one by one, those of before go on: what they do not count is counted once
// they are gone, and hurts nobody meanwhile.
func TestServersOfBeforeWorkOnTheNewSchema(t *testing.T) {
	testkit.Proves(t, "X3")
	before(t, 1, func(t *testing.T, h harness, old func(string, ...any)) {
		db := h.open(t)
		s := db.In(acme)
		old(h.oldInsert("old", acme, false))
		old(oldCommit, "old")
		sb, err := s.ByID(t.Context(), "old")
		noError(t, err)
		if sb.State != sandbox.Running || sb.SkipSave || len(sb.Finalizers) > 0 || sb.Recovered != (sandbox.Recoveries{}) {
			t.Errorf("row is %+v", sb)
		}
		_, err = s.Delete(t.Context(), "old", false, "", "") // which was never counted
		noError(t, err)
		wantUsed(t, s, store.QuotaSandboxes, 0)
		ours := intend(t, s, capped("ours", 3))
		intend(t, s, capped("ours too", 3))
		old(`update sandboxes set deleted_at = created_at where id = $1`, ours.ID)
		old(h.oldInsert("older", acme, false))
		old(h.oldInsert("oldest", acme, false))
		if wrong, err := db.Recount(t.Context()); err != nil || wrong != 1 {
			t.Errorf("%d counts were wrong (%v), want 1", wrong, err)
		}
		wantUsed(t, s, store.QuotaSandboxes, 3)
		if tryIntend(t, s, capped("more", 3)) == nil {
			t.Error("made a fourth of three")
		}
	})
}

// A turn that ran when its servers were replaced by newer ones goes on: its log is whole, and so is where it was.
func TestTurnsOfTheEarlierSchemaGoOn(t *testing.T) {
	testkit.Proves(t, "X3", "C4")
	before(t, 3, func(t *testing.T, h harness, old func(string, ...any)) {
		now := fmt.Sprint(time.Now().UnixMicro())
		if h.engine == "postgres" {
			now = "now()"
		}
		old(fmt.Sprintf(`
			insert into conversations (id, tenant, account, title, agent, template, sandbox, own_sandbox, is_default, session, session_turns,
				metadata, messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos, extra, last_message,
				created_at, updated_at)
			values ('c', 'acme', '', '', '', 'demo', 'box', true, false, 's', 1, '{}', 1, 0, 0, 0, 0, 0, '', 'm', %[1]s, %[1]s)`, now))
		old(fmt.Sprintf(`
			insert into turns (id, tenant, conversation, sandbox, slot, status, message, reply, prompt, model, template, actor, cancel_reason,
				epoch, session, resume, attempt, seq, read_to, state, log_bytes, version, warnings, done, created_at, started_at)
			values ('t', 'acme', 'c', 'box', 0, 'running', 'm', 'r', 'hello', '', 'demo', '', '',
				1, 's', false, 1, 3, 70, '{"place":1}', 60, '', '[]', '[]', %[1]s, %[1]s)`, now))
		old(`insert into turn_log (turn, first, last, data) values ($1, 1, 2, $2)`, "t", []byte(`{"n":1}`+"\n"+`{"n":2}`))
		old(`insert into turn_log (turn, first, last, data) values ($1, 3, 3, $2)`, "t", []byte(`{"n":3}`))
		db := h.open(t) // migrates
		l, turn := take(t, db, "t", "new")
		if turn.Seq != 3 || turn.ReadTo != 70 || string(turn.State) != `{"place":1}` || turn.Attempt != 1 || turn.Finished() {
			t.Errorf("the turn is %+v", turn)
		}
		done, err := db.TurnRuns().Append(t.Context(), []store.TurnAppend{{Lease: l, Append: store.Append{After: 3, To: 90, Events: [][]byte{[]byte(`{"n":4}`)}}}})
		noError(t, err)
		if got := readLog(t, db, "t", 0); !done[0] || !slices.Equal(got, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}) {
			t.Errorf("appended %v; the log is %q", done, got)
		}
	})
}

// Sandboxes of conversations from before belong to their conversation's account, if there is one, and are listed
// until their prefix is recorded.
func TestSandboxesOfTheEarlierSchemaGetTheirAccount(t *testing.T) {
	testkit.Proves(t, "X3", "E8")
	before(t, 4, func(t *testing.T, h harness, old func(string, ...any)) {
		now := fmt.Sprint(time.Now().UnixMicro())
		if h.engine == "postgres" {
			now = "now()"
		}
		old(fmt.Sprintf(`insert into tenants (id, name, created_at) values ('acme', 'acme', %s)`, now))
		old(fmt.Sprintf(`insert into accounts (id, tenant, name, email, created_at) values ('ann', 'acme', 'ann', '', %s)`, now))
		for id, account := range map[string]string{"one": "ann", "two": "unknown"} {
			old(fmt.Sprintf(`
				insert into conversations (id, tenant, account, title, agent, template, sandbox, own_sandbox, is_default, session, session_turns,
					metadata, messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos, extra, last_message,
					created_at, updated_at)
				values ('%[1]s', 'acme', '%[2]s', '', 'reviewer', 'demo', '%[1]s', true, false, '', 0, '{}', 0, 0, 0, 0, 0, 0, '{}', '', %[3]s, %[3]s)`, id, account, now))
			old(h.oldInsert(id, acme, false))
			old(`update sandboxes set owner_kind = 'conversation' where id = $1`, id)
		}
		db := h.open(t) // migrates
		found, err := db.Versions().WithoutPrefix(t.Context(), "", 10)
		noError(t, err)
		if len(found) != 2 || found[0].Account != "ann" || found[0].Agent != "reviewer" || found[1].Account != "" {
			t.Fatalf("without a prefix are %+v", found)
		}
		noError(t, db.Versions().SetPrefix(t.Context(), "one", "docs/acme/one/"))
		noError(t, db.Versions().SetPrefix(t.Context(), "one", "docs/other/"))
		if sb, err := db.In(acme).Within("ann").ByID(t.Context(), "one"); err != nil || sb.Prefix != "docs/acme/one/" {
			t.Errorf("%q, %v", sb.Prefix, err)
		}
		if _, err := db.In(acme).Within("ann").ByID(t.Context(), "two"); fault.CodeOf(err) != api.CodeNotFound {
			t.Errorf("another account's: %v", err)
		}
		if c, err := db.In(acme).Conversation(t.Context(), "one"); err != nil || len(c.Env) != 0 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}
