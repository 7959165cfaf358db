package project_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// set puts a project's sandbox into a state that it may be hard to catch in.
func (w *world) set(id string, state sandbox.State) {
	w.t.Helper()
	w.exec(`update sandboxes set state = $1, due_at = null where owner_id = $2 and active_at > %s`, time.Hour, state, id)
}

// listed reads a list to its end, in small pages.
func (w *world) listed(p project.Projects, status string) (ids []string) {
	w.t.Helper()
	for page := (store.Page{Limit: 2}); ; {
		items, next, err := p.List(w.t.Context(), status, page)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, s := range items {
			ids = append(ids, s.Owner.ID)
		}
		if page.After = next; next.IsZero() {
			return ids
		}
	}
}

func TestListByStatus(t *testing.T) {
	testkit.Proves(t, "P2")
	onBoth(t, func(w *world) {
		by := map[string][]string{}
		for _, state := range sandbox.States {
			id := "is-" + string(state)
			w.ensure(id)
			w.set(id, state)
			by[state.ProjectStatus()] = append([]string{id}, by[state.ProjectStatus()]...)
		}
		if len(by) != 7 || len(project.Statuses) != 7 {
			w.t.Fatalf("statuses %v, %v", project.Statuses, by)
		}
		for _, status := range project.Statuses {
			if got := w.listed(w.Projects, status); !slices.Equal(got, by[status]) {
				w.t.Errorf("%s: %v, want %v", status, got, by[status])
			}
		}
		if got := w.listed(w.Projects, ""); len(got) != len(sandbox.States) {
			w.t.Errorf("all: %v", got)
		}
		if got := w.listed(w.of("rival"), ""); got != nil {
			w.t.Errorf("another tenant sees %v", got)
		}
		_, _, err := w.Projects.List(w.t.Context(), "HAPPY", store.Page{})
		fails(w.t, err, api.CodeInvalidRequest)
	})
}

// The view has the columns that it is known by, in the words of the project API.
func TestViewOfProjectSandboxes(t *testing.T) {
	testkit.Proves(t, "P5")
	onBoth(t, func(w *world) {
		ctx := w.t.Context()
		spec := sandbox.Spec{Metadata: map[string]string{"team": "x"}}
		if _, _, err := w.Projects.Ensure(ctx, "p", spec, ""); err != nil {
			w.t.Fatal(err)
		}
		w.ensure("gone")
		if _, err := w.Projects.Delete(ctx, "gone", false); err != nil {
			w.t.Fatal(err)
		}
		s := w.get("p")
		for _, state := range sandbox.States {
			w.set("p", state)
			var id, projectID, tenant, sandboxID, status, metadata string
			var created, started, accessed, checked any
			var message sql.NullString
			rows := w.raw.QueryRowContext(ctx, `select id, project_id, tenant_id, sandbox_id, status, created_at, started_at,
				last_accessed_at, health_checked_at, error_message, metadata_json from project_sandboxes`)
			if err := rows.Scan(&id, &projectID, &tenant, &sandboxID, &status, &created, &started, &accessed, &checked, &message, &metadata); err != nil {
				w.t.Fatal(err) // also if there is more than the one that is not deleted
			}
			var kept map[string]string
			if err := json.Unmarshal([]byte(metadata), &kept); err != nil || kept["team"] != "x" {
				w.t.Errorf("metadata %s, %v", metadata, err)
			}
			if id != s.ID || sandboxID != s.ID || projectID != "p" || tenant != "acme" || status != state.ProjectStatus() || message.Valid {
				w.t.Errorf("in state %s: %s %s %s %s %s %v", state, id, projectID, tenant, sandboxID, status, message)
			}
			if moment(created) != s.CreatedAt.UnixMicro() || moment(started) != s.StartedAt.UnixMicro() || moment(accessed) != s.ActiveAt.UnixMicro() || moment(checked) != s.ProbedAt.UnixMicro() {
				w.t.Errorf("times %v %v %v %v, want those of %+v", created, started, accessed, checked, s)
			}
		}
		var n int
		if err := w.raw.QueryRowContext(ctx, `select count(*) from project_sandboxes`).Scan(&n); err != nil || n != 1 {
			w.t.Errorf("%d rows, %v; the deleted one is there, too", n, err)
		}
	})
}

// moment is a time as either database gives it.
func moment(v any) int64 {
	switch v := v.(type) {
	case time.Time:
		return v.UnixMicro()
	case int64:
		return v
	}
	return 0
}

// The view is read along an index by status and by last use.
func TestViewIsReadAlongAnIndex(t *testing.T) {
	testkit.Proves(t, "P5")
	onBoth(t, func(w *world) {
		for query, index := range map[string]string{
			`select * from project_sandboxes where status = 'ERROR'`:             "project_sandboxes_status",
			`select * from project_sandboxes order by last_accessed_at limit 10`: "sandboxes_idle",
		} {
			if plan := w.plan(query); !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan") {
				w.t.Errorf("%s is not read along %s:\n%s", query, index, plan)
			}
		}
	})
}

// plan is how the database reads a query.
func (w *world) plan(query string) (plan string) {
	w.t.Helper()
	ctx := w.t.Context()
	conn, err := w.raw.Conn(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	word, columns := "explain query plan ", 4
	if w.db.Engine() == "postgres" {
		word, columns = "explain ", 1
		if _, err := conn.ExecContext(ctx, "set enable_seqscan = off"); err != nil {
			w.t.Fatal(err)
		}
	}
	rows, err := conn.QueryContext(ctx, word+query)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		line := make([]any, columns)
		for i := range line {
			line[i] = new(any)
		}
		if err := rows.Scan(line...); err != nil {
			w.t.Fatal(err)
		}
		plan += fmt.Sprint(*line[columns-1].(*any)) + "\n"
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return plan
}

// What lists by status and finds the stale is read along indexes, too: PostgreSQL counts how often each was,
// and how often the whole table.
func TestListsAreReadAlongAnIndex(t *testing.T) {
	testkit.Proves(t, "P5")
	onPostgres(t, func(w *world) {
		ctx := w.t.Context()
		for i := range 20 {
			w.ensure(fmt.Sprintf("p%d", i))
		}
		count := func(text, index string) (n int64) {
			if err := w.raw.QueryRowContext(ctx, text, index).Scan(&n); err != nil {
				w.t.Fatal(err)
			}
			return n
		}
		reads := func(index string) int64 {
			return count(`select coalesce(sum(idx_scan), 0) from pg_stat_user_indexes where relname = 'sandboxes' and indexrelname like $1`, index)
		}
		wholes := func() int64 { return count(`select seq_scan from pg_stat_user_tables where relname = $1`, "sandboxes") }
		for index, ask := range map[string]func(context.Context) error{
			"sandboxes_%":    func(ctx context.Context) error { return second3(w.Projects.List(ctx, "RUNNING", store.Page{})) },
			"sandboxes_idle": func(ctx context.Context) error { return second3(w.Projects.Cleanup(ctx, time.Hour, true)) },
		} {
			before, whole := reads(index), wholes()
			testkit.Eventually(w.t, time.Minute, func() error {
				if err := ask(ctx); err != nil {
					return err
				}
				if n := reads(index); n <= before {
					return fmt.Errorf("%s: read %d times before and after", index, n)
				}
				return nil
			})
			if n := wholes(); n != whole {
				w.t.Errorf("%s: the table was read as a whole %d times", index, n-whole)
			}
		}
	})
}

func second3[A, B any](_ A, _ B, err error) error { return err }
