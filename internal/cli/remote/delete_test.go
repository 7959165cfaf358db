package remote

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/api"
)

const firstID = "01970e4b-0000-7000-8000-000000000001"

func TestRmWithoutAReasonSaysNone(t *testing.T) {
	slow := &stillDeleting{ref: "scratch", left: api.Sandbox{ID: firstID}}
	if got := slow.Error(); got != "scratch is being deleted; watch it with 'berth get "+firstID+"'" {
		t.Error(got)
	}
}

// TestDeleteWhoseAnswerWasNotAwaited: what it came to is asked for, not guessed.
func TestDeleteWhoseAnswerWasNotAwaited(t *testing.T) {
	var answer atomic.Pointer[api.Problem]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if p := answer.Load(); p != nil {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(p.Status)
			_ = json.NewEncoder(w).Encode(p)
			return
		}
		_ = json.NewEncoder(w).Encode(api.Sandbox{ID: firstID, Want: "running"})
	}))
	defer server.Close()
	r := newRemote()
	r.Server = server.URL
	c, err := r.Connect()
	if err != nil {
		t.Fatal(err)
	}
	timeout := api.NewProblem(api.CodeTimeout, "too slow")
	if err := deleteResult(t.Context(), c, firstID, "scratch", timeout); err != timeout {
		t.Errorf("one without a request to end it: %v", err)
	}
	answer.Store(api.NewProblem(api.CodeDeleted, "it was deleted"))
	if err := deleteResult(t.Context(), c, firstID, "scratch", timeout); err != nil {
		t.Errorf("one that is gone by now: %v", err)
	}
}
