package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// fill makes n running sandboxes of acme, a second apart, one in a thousand with another kind
// of owner, state, template and driver, and the older half of them tombstones.
func (h harness) fill(t testing.TB, n int) {
	t.Helper()
	const columns = `id, tenant, owner_kind, owner_id, name, template, driver, profile, env, metadata, host, state, want,
		generation, incarnation, instance, synced_version, synced_incarnation, changes, created_at, active_at, deleted_at`
	const values = `'acme', case when i %% 1000 = 0 then 'thread' else 'project' end, 'owner-' || i, '', case when i %% 1000 = 0 then 'rare' else 'default' end,
		case when i %% 1000 = 0 then 'rare' else 'fake' end, '', '{}', '{}', '', case when i %% 1000 = 0 then 'error' else 'running' end,
		'running', 1, 1, 'i-' || i, '', 0, 1`
	text := fmt.Sprintf(`insert into sandboxes (`+columns+`)
		with recursive n(i) as (select 1 union all select i + 1 from n where i < %[1]d)
		select printf('00000000-0000-7000-8000-%%012d', i), `+values+`, i * 1000000, i * 1000000,
			case when i <= %[1]d / 2 then i * 1000000 end from n`, n)
	if h.engine == "postgres" {
		text = fmt.Sprintf(`insert into sandboxes (`+columns+`)
			select '00000000-0000-7000-8000-' || lpad(cast(i as text), 12, '0'), `+values+`, to_timestamp(i), to_timestamp(i),
				case when i <= %[1]d / 2 then to_timestamp(i) end
			from generate_series(1, %[1]d) as n(i)`, n)
	}
	db := h.rawDB(t)
	for _, statement := range []string{text, `analyze`} {
		_, err := db.Exec(statement)
		noError(t, err)
	}
}

// filled is just after the row that fill made as number i.
func filled(i int) store.Position {
	return store.Position{CreatedAt: time.Unix(int64(i), 0), ID: fmt.Sprintf("00000000-0000-7000-8000-%012d", i)}
}

// Every page of every filter is read along an index that has its rows in order, from where it begins:
// nothing is scanned or sorted, however deep the page, and no rows are passed over that a rare filter
// does not want. What that takes is measured in bench.
func TestEveryPageIsReadAlongAnIndex(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		rows := testkit.Size(t, "list.rows")
		if h.engine == "sqlite" {
			rows /= 10 // its planner goes by the indexes, not by how many rows there are
		}
		db := h.open(t)
		h.fill(t, rows)
		for name, filter := range map[string]store.Filter{
			"all": {}, "with tombstones": {IncludeDeleted: true}, "state": {State: sandbox.Running},
			"rare state": {State: sandbox.Failed}, "rare, ending": {State: sandbox.Terminating}, "owner kind": {OwnerKind: sandbox.OwnerProject},
			"rare owner kind": {OwnerKind: sandbox.OwnerThread},
			"rare template":   {Template: "rare"}, "rare driver": {Driver: "rare"}, "no such template": {Template: "none"},
		} {
			for _, behind := range []int{rows + 1, 3 * rows / 4, rows/2 + 10} {
				plan, err := db.In(acme).Explain(t.Context(), filter, store.Page{Limit: 50, After: filled(behind)})
				noError(t, err)
				slow := []string{"Seq Scan on sandboxes", "Sort", "SCAN sandboxes", "TEMP B-TREE"}
				if strings.HasPrefix(name, "rare") || strings.HasPrefix(name, "no such") {
					slow = append(slow, "Filter: (state", "Filter: (owner_kind", "Filter: (template", "Filter: (driver", "INDEX sandboxes_live")
				}
				for _, word := range slow {
					if strings.Contains(plan, word) {
						t.Errorf("%s, the page after row %d: %s in\n%s", name, behind, word, plan)
					}
				}
			}
		}
	})
}

// Questions about all of a tenant's, a driver's or everybody's sandboxes are answered along their own
// indexes, in order: of a large table only what is asked for is read.
func TestSweepsAndStatusAreReadAlongAnIndex(t *testing.T) {
	testkit.Proves(t, "P5")
	onBoth(t, func(t *testing.T, h harness) {
		rows := testkit.Size(t, "list.rows") / 10
		db := h.open(t)
		h.fill(t, rows)
		states := store.Filter{States: []sandbox.State{sandbox.Failed, sandbox.Stopped, sandbox.Stopping}}
		for name, c := range map[string]struct {
			explain func() (string, error)
			index   string
			slow    []string
		}{
			"states": {func() (string, error) {
				return db.In(acme).Explain(t.Context(), states, store.Page{Limit: 50, After: filled(3 * rows / 4)})
			}, "sandboxes_state", []string{"Filter: (state", "sandboxes_live"}},
			"idle": {func() (string, error) {
				return db.In(acme).ExplainIdle(t.Context(), sandbox.OwnerProject, time.Hour, 50)
			}, "sandboxes_idle", []string{"Sort", "TEMP B-TREE"}},
			"placed": {func() (string, error) {
				return db.ExplainPlaced(t.Context(), "fake", "north", filled(rows/2).ID, 1000)
			}, "sandboxes_p", []string{"Sort", "TEMP B-TREE"}}, // where nearly all are, the primary key's order does
			"placed at a rare driver": {func() (string, error) {
				return db.ExplainPlaced(t.Context(), "rare", "north", filled(rows/2).ID, 1000)
			}, "sandboxes_placed", []string{"Sort", "TEMP B-TREE"}},
			"project status": {func() (string, error) {
				return db.Explain(t.Context(), `select * from project_sandboxes where status = 'ERROR'`)
			}, "project_sandboxes_status", nil},
			"project last accessed": {func() (string, error) {
				return db.Explain(t.Context(), `select * from project_sandboxes order by last_accessed_at limit 50`)
			}, "sandboxes_idle", []string{"Sort", "TEMP B-TREE"}},
			"project": {func() (string, error) {
				return db.Explain(t.Context(), `select * from project_sandboxes where tenant_id = 'acme' and project_id = 'owner-7'`)
			}, "sandboxes_owner", nil},
		} {
			plan, err := c.explain()
			noError(t, err)
			if !strings.Contains(plan, c.index) {
				t.Errorf("%s is read without the index %s:\n%s", name, c.index, plan)
			}
			for _, word := range append(c.slow, "Seq Scan on sandboxes", "SCAN sandboxes\n") {
				if strings.Contains(plan, word) {
					t.Errorf("%s: %s in\n%s", name, word, plan)
				}
			}
		}
	})
}
