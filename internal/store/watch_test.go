package store_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// What is counted for the metrics: sandboxes by state without the deleted ones, and what waits in the outbox.
func TestNumbersForTheMetrics(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		in := db.In("acme")
		for _, owner := range []string{"a", "b", "c"} {
			s, _, err := in.RequestSandbox(t.Context(), store.SandboxRequest{Kind: sandbox.OwnerProject, Owner: owner, Want: sandbox.WantRunning})
			if err != nil {
				t.Fatal(err)
			}
			if owner == "c" {
				if _, err := in.Delete(t.Context(), s.ID, false, "test", "test"); err != nil {
					t.Fatal(err)
				}
			}
			if err := in.Outgoing().Enqueue(t.Context(), store.Message{Kind: "webhook", Payload: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
		states, err := db.Overview().States(t.Context())
		if err != nil || states[sandbox.Pending] != 2 || len(states) != len(sandbox.States) {
			t.Errorf("%v, %v", states, err)
		}
		logs, err := db.Overview().Backlogs(t.Context())
		if err != nil || len(logs) != 1 || logs[0].Kind != "webhook" || logs[0].Messages != 3 || time.Since(logs[0].Oldest) > time.Hour || logs[0].Oldest.IsZero() {
			t.Errorf("%+v, %v", logs, err)
		}
	})
}
