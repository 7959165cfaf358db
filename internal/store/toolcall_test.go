package store_test

import (
	"slices"
	"testing"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestToolCallsAreCancelledByTheirClientAlone(t *testing.T) {
	testkit.Proves(t, "P9")
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		for _, c := range []store.ToolCall{
			{ID: "a", Server: "one", Client: "me", Request: "1"},
			{ID: "b", Server: "two", Client: "another", Request: "1"},
			{ID: "c", Server: "one", Client: "me", Request: "2"},
			{ID: "d", Server: "two", Client: "me", Request: "2"},
		} {
			noError(t, db.ToolCalls().Begin(t.Context(), c))
		}
		cancelled := func(server string, want ...string) {
			t.Helper()
			got, err := db.ToolCalls().ListCancelled(t.Context(), server)
			noError(t, err)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("cancelled on %s: %v, want %v", server, got, want)
			}
		}
		for _, c := range []struct {
			request string
			want    []string
		}{{"3", nil}, {"2", nil}, {"1", []string{"a"}}, {"1", []string{"a"}}} { // 2 is ambiguous
			ids, err := db.ToolCalls().Cancel(t.Context(), "me", c.request)
			noError(t, err)
			if !slices.Equal(ids, c.want) {
				t.Errorf("request %s: cancelled %v, want %v", c.request, ids, c.want)
			}
		}
		cancelled("one", "a")
		cancelled("two")
		noError(t, db.ToolCalls().End(t.Context(), "d"))
		noError(t, db.ToolCalls().Renew(t.Context(), "one"))
		ids, err := db.ToolCalls().Cancel(t.Context(), "me", "2") // no longer ambiguous
		noError(t, err)
		if !slices.Equal(ids, []string{"c"}) {
			t.Errorf("cancelled %v", ids)
		}
		noError(t, db.ToolCalls().End(t.Context(), "a"))
		cancelled("one", "c")
		ids, err = db.ToolCalls().CancelAll(t.Context(), "another")
		noError(t, err)
		if !slices.Equal(ids, []string{"b"}) {
			t.Errorf("cancelled %v", ids)
		}
		cancelled("two", "b")
	})
}
