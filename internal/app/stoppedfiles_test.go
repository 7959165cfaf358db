package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// A change of files, and a sync, start a stopped sandbox; a read does not.
func TestWritingToAStoppedSandboxStartsIt(t *testing.T) {
	testkit.Proves(t, "V3")
	t.Parallel()
	p := start(t, local(t))
	c := p.client(t)
	b := make1(t, c, api.CreateSandbox{Name: "box"})
	b.sh("echo first > f")
	for _, ask := range []struct{ what, method, path, body, after string }{
		{"read", http.MethodGet, "/files/f", "", "stopped"},
		{"list", http.MethodGet, "/files", "", "stopped"},
		{"write", http.MethodPut, "/files/f", "second", "running"},
		{"make a folder", http.MethodPost, "/files/d", `{"op":"mkdir"}`, "running"},
		{"delete", http.MethodDelete, "/files/d", "", "running"},
		{"sync", http.MethodPost, "/sync", "", "running"},
	} {
		if s, err := c.Sandboxes.Stop(t.Context(), "box"); err != nil || s.State != "stopped" {
			t.Fatalf("stop: %+v, %v", s, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), ask.method, p.url+"/api/v1/sandboxes/box"+ask.path, strings.NewReader(ask.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testKey)
		if strings.HasPrefix(ask.body, "{") {
			req.Header.Set("Content-Type", "application/json")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode >= 300 {
			t.Errorf("%s: %s", ask.what, res.Status)
		}
		if got := b.get().State; got != ask.after {
			t.Errorf("after %s it is %s, want %s", ask.what, got, ask.after)
		}
	}
	b.says("cat f", "second")
}
