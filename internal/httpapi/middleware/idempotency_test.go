package middleware

import (
	"net/http"
	"testing"

	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/store"
)

func TestOnlyFinalAnswersAreKept(t *testing.T) {
	for status, want := range map[int]bool{200: true, 201: true, 400: true, 404: true, 409: true, 422: true, 401: false, 403: false, 408: false, 429: false, 500: false, 502: false, 503: false} {
		if isFinal(status, false) != want || isFinal(status, true) {
			t.Errorf("isFinal(%d): want %v, and never a retryable answer", status, want)
		}
	}
}

func TestLargeAnswerIsNotKept(t *testing.T) {
	x := &exchange.Exchange{ID: "id", Route: &exchange.Route{}}
	answer := store.Answer{Status: 200, Header: map[string][]string{"Location": {"/x"}}, Body: make([]byte, maxKept+1)}
	if got := storable(x, answer); got.Status != http.StatusConflict || len(got.Body) > 1000 || got.Header["Location"][0] != "/x" {
		t.Errorf("kept %d with %d bytes", got.Status, len(got.Body))
	}
	answer.Body = answer.Body[1:]
	if got := storable(x, answer); got.Status != 200 || len(got.Body) != maxKept {
		t.Errorf("kept %d with %d bytes", got.Status, len(got.Body))
	}
}
