package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

// A migration that shipped has run on databases that nobody can run it on again.
func TestShippedMigrationsAreNeverEdited(t *testing.T) {
	testkit.Proves(t, "X3")
	pinned, err := os.ReadFile("migrations/SHA256SUMS")
	noError(t, err)
	sums := map[string]string{}
	for line := range strings.Lines(string(pinned)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	files, err := filepath.Glob("migrations/*.sql")
	noError(t, err)
	texts := store.CodedMigrations()
	for _, file := range files {
		text, err := os.ReadFile(file)
		noError(t, err)
		texts[filepath.Base(file)] = string(text)
	}
	for name, text := range texts {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		switch sums[name] {
		case sum:
		case "":
			t.Errorf("%s is new: add the line %q to internal/store/migrations/SHA256SUMS", name, sum+"  "+name)
		default:
			t.Errorf("%s was edited after it shipped: databases that have run it never get the change, and the "+
				"next migration may fail on them. Undo the edit (git checkout) and write a new migration.", name)
		}
		delete(sums, name)
	}
	for name := range sums {
		t.Errorf("%s shipped and is gone from migrations: put it back", name)
	}
}

// shipped is a set of migrations that some commit had, as texts by file name.
type shipped struct {
	name  string
	files []string // below migrations or testdata/shipped
}

// histories are all sequences of texts that a database may have run: each file in the versions it shipped in.
func histories() (all []shipped) {
	all = append(all, shipped{"1", []string{"migrations/00001_foundation.sql"}})
	for two, second := range map[string]string{
		"first": "testdata/shipped/00002_lifecycle.first.sql", "last": "migrations/00002_lifecycle.sql",
	} {
		files := []string{"migrations/00001_foundation.sql", second}
		all = append(all, shipped{"2 " + two, files})
		for three, third := range map[string]string{
			"first": "testdata/shipped/00003_conversations.first.sql", "third": "testdata/shipped/00003_conversations.third.sql",
			"last": "migrations/00003_conversations.sql",
		} {
			files := append(slices.Clone(files), third)
			all = append(all, shipped{"2 " + two + ", 3 " + three, files})
			if three != "third" { // 00004 never ran on it
				all = append(all, shipped{"2 " + two + ", 3 " + three + ", 4", append(slices.Clone(files), "migrations/00004_turn_log.sql")})
			}
		}
	}
	all = append(all, shipped{"7 first", []string{
		"migrations/00001_foundation.sql", "migrations/00002_lifecycle.sql", "migrations/00003_conversations.sql", "migrations/00004_turn_log.sql",
		"migrations/00006_unsaved.sql", "testdata/shipped/00007_owners.first.sql",
	}})
	slices.SortFunc(all, func(a, b shipped) int { return strings.Compare(a.name, b.name) })
	return all
}

// run applies the migrations as the Berth of that commit did.
func (s shipped) run(t *testing.T, h harness, raw *sql.DB) {
	t.Helper()
	files := fstest.MapFS{}
	for _, file := range s.files {
		text, err := os.ReadFile(file)
		noError(t, err)
		name := strings.Replace(strings.Replace(filepath.Base(file), ".first", "", 1), ".third", "", 1)
		files[name] = &fstest.MapFile{Data: text, Mode: fs.FileMode(0o600)}
	}
	dialect := goose.DialectSQLite3
	if h.engine == "postgres" {
		dialect = goose.DialectPostgres
	}
	provider, err := goose.NewProvider(dialect, raw, files, goose.WithDisableGlobalRegistry(true))
	noError(t, err)
	_, err = provider.Up(t.Context())
	noError(t, err)
}

// fill inserts rows of the schema that the migrations made.
func (s shipped) fill(t *testing.T, h harness, raw *sql.DB) {
	t.Helper()
	now := fmt.Sprint(time.Now().UnixMicro())
	if h.engine == "postgres" {
		now = "now()"
	}
	exec := func(text string, args ...any) {
		t.Helper()
		_, err := raw.Exec(text, args...)
		noError(t, err)
	}
	exec(h.oldInsert("old-1", acme, false))
	exec(h.oldInsert("old-2", acme, true))
	exec(oldCommit, "old-1")
	if len(s.files) < 3 {
		return
	}
	exec(fmt.Sprintf(`
		insert into conversations (id, tenant, account, title, agent, template, sandbox, own_sandbox, is_default, session, session_turns,
			metadata, messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos, extra, last_message,
			created_at, updated_at)
		values ('c', 'acme', '', '', '', 'demo', 'box', true, false, 's', 1, '{}', 1, 0, 0, 0, 0, 0, '', 'm', %[1]s, %[1]s)`, now))
	exec(`insert into messages (tenant, conversation, id, body) values ('acme', 'c', 'm', '{"id":"m"}')`)
	extra, value, placed := "", "", strings.Contains(s.name, "third") || len(s.files) >= 4
	if !placed {
		extra, value = "log_bytes, ", "60, "
	}
	exec(fmt.Sprintf(`
		insert into turns (id, tenant, conversation, sandbox, slot, status, message, reply, prompt, model, template, actor, cancel_reason,
			epoch, session, resume, attempt, seq, read_to, state, %[2]sversion, warnings, done, created_at, started_at)
		values ('t', 'acme', 'c', 'box', 0, 'running', 'm', 'r', 'hello', '', 'demo', '', '',
			1, 's', false, 1, 1, 70, '{"place":1}', %[3]s'', '[]', '[]', %[1]s, %[1]s)`, now, extra, value))
	if placed {
		exec(`insert into turn_log (turn, first, last, data, read_to, state) values ('t', 1, 1, $1, 70, '{"place":1}')`, []byte(`{"n":1}`))
		exec(`insert into turn_log (turn, first, last, data, read_to, state) values ('t', 2, 2, $1, 80, '{"place":2}')`, []byte(`{"n":2}`))
	} else {
		exec(`insert into turn_log (turn, first, last, data) values ('t', 1, 1, $1)`, []byte(`{"n":1}`))
	}
}

// Every database that some commit made is brought to the same schema as a new one, and keeps its rows.
func TestDatabasesOfEveryShippedSchemaAreUpgraded(t *testing.T) {
	testkit.Proves(t, "X3")
	want := map[string]string{}
	for _, engine := range []string{"sqlite", "postgres"} {
		for _, s := range append([]shipped{{name: "new"}}, histories()...) {
			t.Run(engine+"/"+s.name, func(t *testing.T) {
				h := harness{engine, store.Options{DataDir: t.TempDir(), LeaseTTL: long}}
				if engine == "postgres" {
					h.opts = store.Options{DatabaseURL: pgtest.New(t).URL, LeaseTTL: long}
				}
				if s.files != nil {
					raw := h.rawDB(t)
					s.run(t, h, raw)
					s.fill(t, h, raw)
					noError(t, raw.Close())
				}
				db := h.open(t)
				shape := shapeOf(t, engine, h.rawDB(t))
				if s.files == nil {
					want[engine] = shape
				} else if diff := cmp.Diff(want[engine], shape); diff != "" {
					t.Errorf("schema (-new +upgraded):\n%s", diff)
				}
				if s.files != nil {
					s.verify(t, h, db)
				}
			})
		}
	}
}

// verify looks for the rows of fill through the store.
func (s shipped) verify(t *testing.T, h harness, db *store.DB) {
	t.Helper()
	sb, err := db.In(acme).ByID(t.Context(), "old-1")
	noError(t, err)
	if sb.Instance != "i-1" {
		t.Errorf("the sandbox is %+v", sb)
	}
	if len(s.files) < 3 {
		return
	}
	var body string
	noError(t, h.rawDB(t).QueryRow(`select body from messages where tenant = 'acme' and conversation = 'c' and id = 'm'`).Scan(&body))
	l, turn := take(t, db, "t", "new")
	last := int64(1)
	if strings.Contains(s.name, "third") || len(s.files) >= 4 {
		last = 2
	}
	if turn.Seq != 1 || turn.ReadTo != 70 || string(turn.State) != `{"place":1}` {
		t.Errorf("the turn is %+v", turn)
	}
	done, err := db.TurnRuns().Append(t.Context(), []store.TurnAppend{{Lease: l, Append: store.Append{After: last, To: 90, Events: [][]byte{[]byte(`{"n":9}`)}}}})
	noError(t, err)
	if got := readLog(t, db, "t", 0); !done[0] || len(got) != int(last)+1 || got[0] != `{"n":1}` {
		t.Errorf("appended %v; the log is %q", done, got)
	}
}

var (
	indexName = regexp.MustCompile(`(?i)(index) \S+ (on)`)
	spaces    = regexp.MustCompile(`\s+`)
)

// shapeOf is all tables, columns, keys, indexes and views, but for the order of columns.
func shapeOf(t *testing.T, engine string, raw *sql.DB) string {
	t.Helper()
	queries := []string{
		`select 'index ' || indexdef from pg_indexes where schemaname = current_schema()`,
		`select 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
			from information_schema.columns where table_schema = current_schema()`,
		`select 'view ' || viewname || ' ' || definition from pg_views where schemaname = current_schema()`,
		`select 'constraint ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid) from pg_constraint where connamespace = current_schema()::regnamespace`,
	}
	if engine == "sqlite" {
		queries = []string{
			`select 'index ' || sql from sqlite_master where type in ('index', 'view') and sql is not null`,
			`select 'column ' || m.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || coalesce(c.dflt_value, '') || ' ' || c.pk
				from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table'`,
			`select 'refers ' || m.name || '.' || f."from" || ' ' || f."table" from sqlite_master m, pragma_foreign_key_list(m.name) f where m.type = 'table'`,
		}
	}
	var lines []string
	for _, query := range queries {
		rows, err := raw.QueryContext(context.Background(), query)
		noError(t, err)
		for rows.Next() {
			var line string
			noError(t, rows.Scan(&line))
			lines = append(lines, indexName.ReplaceAllString(spaces.ReplaceAllString(line, " "), "$1 $2"))
		}
		noError(t, rows.Err())
		noError(t, rows.Close())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Two branches may add migrations at once: a database that has run the later number first gets the other one.
func TestMigrationThatWasPassedOverIsApplied(t *testing.T) {
	testkit.Proves(t, "X3")
	h := harness{"sqlite", store.Options{DataDir: t.TempDir()}}
	noError(t, store.MigrateTo(t.Context(), h.opts, 4))
	raw := h.rawDB(t)
	target, err := store.Status(t.Context(), h.opts)
	noError(t, err)
	for _, version := range target.Missing[1:] { // all but the repair, whose absence changes nothing of this schema
		_, err = raw.Exec(`insert into goose_db_version (version_id, is_applied) values ($1, true)`, version)
		noError(t, err)
	}
	schema, err := store.Status(t.Context(), h.opts)
	noError(t, err)
	if len(schema.Missing) != 1 || schema.Missing[0] != 5 || schema.UpToDate() {
		t.Errorf("schema is %+v", schema)
	}
	done, err := store.Migrate(t.Context(), h.opts)
	noError(t, err)
	if !slices.Equal(done.Applied, []string{"00005_repair"}) || !done.UpToDate() {
		t.Errorf("migrated: %+v", done)
	}
}
