//go:build !race

// SQLite is Go here, and fills its tables ten times slower under the race detector: `make suite` runs this file
// without it.

package store

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

// lists are all questions whose answer is many rows, and the claims of background scans. Each runs once on
// SQLite, whose pool keeps the texts; the plan of every text is then looked at on both engines.
func lists(ctx context.Context, db *DB) map[string]func() error {
	s := db.In("acme")
	second := Page{Limit: 50, After: Position{time.Unix(50_000, 0), "x"}}
	page := func(read func(Page) error) func() error {
		return func() error {
			if err := read(Page{Limit: 50}); err != nil {
				return err
			}
			return read(second)
		}
	}
	all := map[string]func() error{
		"accounts": page(func(p Page) error { _, _, err := s.Accounts().List(ctx, p); return err }),
		"agents":   page(func(p Page) error { _, _, err := s.Agents().List(ctx, p); return err }),
		"keys":     page(func(p Page) error { _, _, err := s.Keys().List(ctx, p); return err }),
		"tenants":  page(func(p Page) error { _, _, err := db.Tenants().List(ctx, p); return err }),
		"outbox":   page(func(p Page) error { _, _, err := s.Outgoing().List(ctx, p); return err }),
		"turns":    page(func(p Page) error { _, _, err := s.Turns().List(ctx, "c1", p); return err }),
		"conversations": page(func(p Page) error {
			_, _, err := s.Conversations(ctx, "", p)
			return err
		}),
		"conversations of a sandbox": page(func(p Page) error { _, _, err := s.Conversations(ctx, "b1", p); return err }),

		"history": func() error { _, _, err := s.History(ctx, "b1", 50, 0); return err },
		"holds":   func() error { _, err := db.Holds().List(ctx, "b1"); return err },
		"messages": func() error {
			_, _, err := s.Messages().List(ctx, "c1", MessagePage{Newest: true})
			return err
		},
		"usage": func() error {
			_, err := s.UsageCounts().Usage(ctx, "2026-01-01", "2026-02-01", "", true, 50)
			return err
		},
		"waiting messages":   func() error { _, _, err := s.Outgoing().Count(ctx, "c1"); return err },
		"open turns":         func() error { _, err := s.Turns().ListOpen(ctx, "c1", "b1"); return err },
		"working":            func() error { _, err := s.Turns().ListOldestOpen(ctx, []string{"c1", "c2"}); return err },
		"turn log":           func() error { _, err := db.TurnRuns().ReadLog(ctx, "t1", 0, 50); return err },
		"idle sandboxes":     func() error { _, err := s.ListIdle(ctx, sandbox.OwnerProject, time.Hour, 50); return err },
		"placed":             func() error { _, err := db.ListInstances(ctx, "fake", "h", "", 50); return err },
		"by owner":           func() error { _, _ = s.ByOwner(ctx, sandbox.OwnerProject, "p1"); return nil },
		"up":                 func() error { _, err := db.ListRunning(ctx, "h", "", 50); return err },
		"due":                func() error { _, err := db.Due(ctx, "h", 50); return err },
		"unheld turns":       func() error { _, err := db.TurnRuns().ListDue(ctx, "h", 50); return err },
		"waiting turns":      func() error { _, err := db.TurnRuns().WaitingSandboxes(ctx, 50); return err },
		"unpurged":           func() error { _, err := db.Versions().ListPurgeable(ctx, time.Hour, "", 50); return err },
		"every conversation": func() error { _, err := db.Overview().ListConversations(ctx, "", 50); return err },
		"beside": func() error {
			_, err := db.Versions().ListSharingPrefix(ctx, sandbox.Sandbox{ID: "b1", Owner: sandbox.Owner{Tenant: "acme"}}, "", 50)
			return err
		},
		"claim messages": func() error {
			_, err := db.Outbox().ClaimMessages(ctx, Claiming{Kind: "k", TTL: time.Second})
			return err
		},
		"claim messages about one thing": func() error {
			_, err := db.Outbox().ClaimMessages(ctx, Claiming{Kind: "k", Ref: "r", TTL: time.Second})
			return err
		},
	}
	for name, f := range map[string]Filter{
		"all": {}, "with tombstones": {IncludeDeleted: true}, "tombstones": {Deleted: true}, "state": {State: sandbox.Running}, "ending": {State: sandbox.Terminating},
		"kind": {OwnerKind: sandbox.OwnerProject}, "template": {Template: "rare"}, "driver": {Driver: "rare"},
		"status": {OwnerKind: sandbox.OwnerProject, States: []sandbox.State{sandbox.Creating, sandbox.Starting}},
	} {
		all["sandboxes, "+name] = page(func(p Page) error { _, _, err := s.Sandboxes(ctx, f, p); return err })
	}
	return all
}

// bulk fills the large tables; the engines share the text but for times.
func bulk(t *testing.T, db *DB, rows int) {
	t.Helper()
	words := strings.NewReplacer("AT", "i * 1000000", "HASH", "cast('h' || i as blob)")
	if db.dialect == postgresDialect {
		words = strings.NewReplacer("AT", "to_timestamp(i)", "HASH", "decode(md5(cast(i as text)), 'hex')")
	}
	for i, text := range []string{
		`insert into sandboxes (id, tenant, owner_kind, owner_id, name, template, driver, profile, env, metadata, host, state, want,
			generation, incarnation, instance, synced_version, synced_incarnation, changes, created_at, active_at, due_at, deleted_at)
		select 'b' || i, 'acme', 'project', 'p' || i, '', 'default', 'fake', '', '{}', '{}', '', case when i % 3 = 0 then 'terminated' else 'running' end, 'running',
			1, 1, 'i-' || i, '', -2, 1, AT, AT, case when i % 1000 = 0 then AT end, case when i % 3 = 0 then AT end from n`,
		`insert into conversations (id, tenant, account, title, agent, template, sandbox, own_sandbox, is_default, session, session_turns, metadata,
			messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos, extra, last_message, created_at, updated_at)
		select 'c' || i, 'acme', '', '', '', '', 'b' || i, false, false, '', 0, '{}', 0, 0, 0, 0, 0, 0, '{}', '', AT, AT from n`,
		`insert into turns (id, tenant, conversation, sandbox, slot, status, message, reply, prompt, model, template, actor, cancel_reason,
			epoch, session, resume, attempt, seq, read_to, state, version, warnings, done, created_at, finished_at)
		select 't' || i, 'acme', 'c' || i, 'b' || i, null, '', '', '', '', '', '', '', '', 1, '', false, 1, 0, 0, '', '', '[]', '[]', AT,
			case when i % 1000 > 0 then AT end from n`,
		`insert into outbox (id, tenant, kind, payload, attempts, last_error, created_at, due_at)
		select 'o' || i, 'acme', 'other', cast('' as bytea), 0, '', AT, AT from n`,
		`insert into leases (kind, id, holder, epoch, until) select 'sandbox', 'b' || i, '', 1, AT from n`,
		`insert into history (sandbox, seq, at, event, from_state, to_state, want, reason, actor, generation, incarnation, instance)
		select 'b' || i, 1, AT, '', '', '', '', '', '', 1, 1, '' from n`,
		`insert into messages (tenant, conversation, id, body) select 'acme', 'c' || i, 'm' || i, '{}' from n`,
		`insert into turn_log (turn, first, last, data, read_to, state) select 't' || i, 1, 1, cast('' as bytea), 0, '' from n`,
		`insert into tenants (id, name, created_at) select 'n' || i, '', AT from n`,
		`insert into accounts (id, tenant, name, email, created_at) select 'a' || i, 'n' || i, '', '', AT from n`,
		`insert into agents (id, tenant, name, template, overrides, created_at, updated_at) select 'g' || i, 'n' || i, '', '', '{}', AT, AT from n`,
		`insert into api_keys (id, tenant, account, label, prefix, hash, scopes, created_at)
		select 'k' || i, 'n' || i, '', '', '', HASH, '[]', AT from n`,
		`insert into holds (sandbox, kind, ref, until) select 'b' || i, 'k', '', AT from n`,
		`insert into usage_days (tenant, day, model, conversation, messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos)
		select 'acme', '2026-' || i, 'm', 'c' || i, 0, 0, 0, 0, 0, 0 from n`,
	} {
		into, from, _ := strings.Cut(words.Replace(text), "select ")
		if i == 5 {
			rows /= 10 // the planners go by what they know of each table, and the rest is like these
		}
		text = fmt.Sprintf("%s with recursive n (i) as (select 1 union all select i + 1 from n where i < %d) select %s", into, rows, from)
		if _, err := db.write.exec(t.Context(), text); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	if db.dialect == postgresDialect { // there it happens by itself, on SQLite never
		if _, err := db.write.exec(t.Context(), `analyze`); err != nil {
			t.Fatal(err)
		}
	}
}

// Every list is read along an index, and along one that has all that narrows it: a large table is walked for
// no page.
func TestNoListWalksALargeTable(t *testing.T) {
	testkit.Proves(t, "P5")
	lite, err := Open(t.Context(), Options{DataDir: t.TempDir(), LeaseTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lite.Close() })
	big, err := Open(t.Context(), Options{DatabaseURL: pgtest.New(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = big.Close() })
	rows := testkit.Size(t, "list.rows")
	bulk(t, lite, rows)
	bulk(t, big, rows)
	for name, run := range lists(t.Context(), lite) {
		before := texts(lite)
		if err := run(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fresh := 0
		for text := range texts(lite) {
			if before[text] {
				continue
			}
			fresh++
			for _, problem := range walksSQLite(t, lite, text, name) {
				t.Errorf("sqlite, %s: %s", name, problem)
			}
			for _, problem := range walksPostgres(t, big, text) {
				t.Errorf("postgres, %s: %s", name, problem)
			}
		}
		if fresh == 0 {
			t.Errorf("%s ran no text of its own", name)
		}
	}
}

// texts are those that the pools have prepared.
func texts(db *DB) map[string]bool {
	found := map[string]bool{}
	for _, p := range []*pool{db.read, db.write} {
		p.statements.Range(func(text, _ any) bool {
			found[text.(string)] = true
			return true
		})
	}
	return found
}

// walked are indexes that may be read from one end: those of work that is not done yet, which has few rows
// whatever the table's size, and one that has a whole list in order.
var walked = []string{"tenants_list", "turns_open", "turns_waiting", "sandboxes_due", "sandboxes_unpurged", "turns_slot", "turns_running"}

// narrowed is what the index of a list must have, where a shorter one would walk over rows of another kind.
var narrowed = map[string]string{
	"sandboxes, status":   "(tenant=? AND owner_kind=? AND state=?",
	"sandboxes, state":    "(tenant=? AND state=?",
	"sandboxes, kind":     "(tenant=? AND owner_kind=?",
	"sandboxes, template": "(tenant=? AND template=?",
	"sandboxes, driver":   "(tenant=? AND driver=?",
	"claim messages":      "(kind=? AND due_at<?",
	"unpurged":            "sandboxes_unpurged (id>?",
}

// derived are the names of parts of queries, which are as long as a page.
var derived = []string{"part", "parts", "due", "sizes", "sums", "CONSTANT"}

var scanLine = regexp.MustCompile(`SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?`)

// replanned finds a bare parameter compared with a column that a partial index compares with a constant.
// SQLite looks at its value to see whether the index may be used, and so prepares the statement again each
// time it is bound: 60 % of the time of the lookup behind Ensure.
var replanned = regexp.MustCompile(`(?:where|and) (?:owner_kind|state) = \$\d+`)

func walksSQLite(t *testing.T, db *DB, text, name string) (problems []string) {
	t.Helper()
	if replanned.MatchString(text) {
		problems = append(problems, "is prepared again for each value of a bare parameter; write cast($1 as text):\n"+text)
	}
	plan, err := db.Explain(t.Context(), text, make([]any, parameters(text))...)
	if err != nil {
		t.Fatalf("explain %s: %v", text, err)
	}
	for _, m := range scanLine.FindAllStringSubmatch(plan, -1) {
		if !slices.Contains(derived, m[1]) && !slices.Contains(walked, m[2]) {
			problems = append(problems, fmt.Sprintf("walks %s:\n%s\n%s", m[1], plan, text))
		}
	}
	if want := narrowed[name]; want != "" && !strings.Contains(plan, want) {
		problems = append(problems, fmt.Sprintf("is not read by %s:\n%s", want, plan))
	}
	return problems
}

var seqScan = regexp.MustCompile(`Seq Scan on (\w+)`)

var parameter = regexp.MustCompile(`\$\d+`)

// parameters is how many a text has.
func parameters(text string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(parameter.FindAllString(text, -1)))))
}

// walksPostgres looks at the plan for any arguments, which PostgreSQL uses for texts it has seen a few times.
func walksPostgres(t *testing.T, db *DB, text string) (problems []string) {
	t.Helper()
	spelled := db.dialect.spell(text)
	nulls := make([]string, parameters(spelled))
	for i := range nulls {
		nulls[i] = "null"
	}
	execute := "explain execute looked"
	if len(nulls) > 0 {
		execute += "(" + strings.Join(nulls, ", ") + ")"
	}
	tx, err := db.write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, statement := range []string{"set local plan_cache_mode = force_generic_plan", "prepare looked as " + spelled} {
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	lines, err := all(t.Context(), &txn{Tx: tx, pool: db.write}, scanOne[string], execute)
	if err != nil {
		t.Fatalf("%s: %v", execute, err)
	}
	if _, err := tx.ExecContext(t.Context(), "deallocate looked"); err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(lines, "\n")
	for _, m := range seqScan.FindAllStringSubmatch(plan, -1) {
		if m[1] != "hosts" { // a row per machine
			problems = append(problems, fmt.Sprintf("walks %s:\n%s\n%s", m[1], plan, spelled))
		}
	}
	return problems
}
