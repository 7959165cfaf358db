package store_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// Other programs read conversations as the view conversation_records, with their stats as one JSON object.
func TestConversationsHaveTheirView(t *testing.T) {
	testkit.Proves(t, "C1")
	onBoth(t, func(t *testing.T, h harness) {
		db, raw := h.open(t), h.rawDB(t)
		c, _, err := db.In(acme).CreateConversation(t.Context(), store.Conversation{Title: "first", Account: "a1", Template: "demo", Sandbox: store.NewID()})
		noError(t, err)
		other, _, err := db.In(acme).CreateConversation(t.Context(), store.Conversation{Title: "other"})
		noError(t, err)
		_, err = raw.Exec(`update conversations set messages = 4, input_tokens = 10, output_tokens = 20, cache_read_tokens = 3,
			cache_write_tokens = 2, cost_nanos = 1500000001 where id = $1`, c.ID)
		noError(t, err)
		rows, err := raw.Query(`select * from conversation_records`)
		noError(t, err)
		columns, err := rows.Columns()
		noError(t, err)
		noError(t, rows.Close())
		if diff := cmp.Diff([]string{
			"id", "account_id", "organization_id", "agent_id", "sandbox_id", "title", "template", "stats", "created_at", "updated_at",
		}, columns); diff != "" {
			t.Errorf("columns (-want +got):\n%s", diff)
		}
		read := func(id string) (org string, account, agent, sandbox *string, stats map[string]float64) {
			var text string
			noError(t, raw.QueryRow(`select organization_id, account_id, agent_id, sandbox_id, stats from conversation_records where id = $1`, id).
				Scan(&org, &account, &agent, &sandbox, &text))
			noError(t, json.Unmarshal([]byte(text), &stats))
			return org, account, agent, sandbox, stats
		}
		org, account, agent, sandbox, stats := read(c.ID)
		if org != string(acme) || account == nil || *account != "a1" || agent != nil || sandbox == nil || *sandbox != c.Sandbox {
			t.Errorf("%s, %v, %v, %v", org, account, agent, sandbox)
		}
		if diff := cmp.Diff(map[string]float64{
			"messages_exchanged": 4, "total_input_tokens": 10, "total_output_tokens": 20, "total_cache_tokens": 5, "total_cost_usd": 1.500000001,
		}, stats); diff != "" {
			t.Errorf("stats (-want +got):\n%s", diff)
		}
		if _, account, _, sandbox, stats := read(other.ID); account != nil || sandbox != nil || stats["messages_exchanged"] != 0 {
			t.Errorf("%v, %v, %v", account, sandbox, stats)
		}
		if h.engine == "postgres" {
			var n float64
			noError(t, raw.QueryRow(`select cast(stats->>'total_cost_usd' as double precision) from conversation_records where stats @> '{"messages_exchanged": 4}'`).Scan(&n))
			if n != 1.500000001 {
				t.Errorf("as jsonb: %v", n)
			}
		}
	})
}
