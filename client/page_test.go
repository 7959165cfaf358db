package client_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// TestPageBeyondTheBoundIsAskedForInSmallerOnes: items of any size are listed as long as a single
// one fits.
func TestPageBeyondTheBoundIsAskedForInSmallerOnes(t *testing.T) {
	var limits []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		limit := r.URL.Query().Get("limit")
		limits = append(limits, limit+r.URL.Query().Get("cursor"))
		page := api.List[api.Sandbox]{Items: []api.Sandbox{{ID: "1"}}, NextCursor: "b"}
		if r.URL.Query().Has("cursor") {
			page.NextCursor = ""
		}
		if limit == "200" || limit == "50" {
			page.Items[0].ID = strings.Repeat("x", 5000)
		}
		answer(w, http.StatusOK, page)
	}, client.WithMaxAnswer(4096))
	n := 0
	for s, err := range c.Sandboxes.List(t.Context(), client.SandboxFilter{}) {
		if err != nil || s.ID != "1" {
			t.Fatalf("%+v, %v", s, err)
		}
		n++
	}
	if got := strings.Join(limits, " "); n != 2 || got != "200 50 12 12b" {
		t.Errorf("%d items with the limits %s", n, got)
	}
}

func TestItemBeyondTheBoundIsAnError(t *testing.T) {
	sent := 0
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		sent++
		answer(w, http.StatusOK, api.List[api.Sandbox]{Items: []api.Sandbox{{ID: strings.Repeat("x", 5000)}}})
	}, client.WithMaxAnswer(4096))
	for _, err := range c.Sandboxes.List(t.Context(), client.SandboxFilter{}) {
		if p := problemOf(t, err); !strings.Contains(p.Detail, "larger than 4096 bytes") {
			t.Errorf("problem %+v", p)
		}
	}
	if sent != 5 { // 200, 50, 12, 3, 1
		t.Errorf("sent %d times", sent)
	}
}
