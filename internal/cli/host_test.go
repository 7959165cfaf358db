package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

func TestHostsAreShownAndForgotten(t *testing.T) {
	seen := time.Date(2026, 11, 15, 2, 0, 0, 0, time.UTC)
	f := newFakeServer(t)
	forgotten := api.ForgottenHost{Name: "north-1", Sandboxes: []api.ForgottenSandbox{
		{ID: "a", Owner: api.Owner{Kind: "project", ID: "shop"}, State: "running", Lost: true, Version: "v7", UnsavedSince: &seen, ActiveAt: seen},
		{ID: "b", Owner: api.Owner{Kind: "project", ID: "new"}, State: "running", Lost: true, ActiveAt: seen},
		{ID: "c", Owner: api.Owner{Kind: "project", ID: "old"}, State: "terminating", Lost: true, Deleting: true, ActiveAt: seen},
		{ID: "d", Owner: api.Owner{Kind: "project", ID: "kept"}, State: "archived", Version: "v1", ActiveAt: seen},
	}}
	f.canned = map[string]any{
		"GET /api/v1/hosts": api.List[api.Host]{Items: []api.Host{
			{Name: "north-1", AdvertiseURL: "https://north.example.com", SeenAt: &seen, StartedAt: &seen, Sandboxes: 4},
			{Name: "south-2", Alive: true, SeenAt: &seen, StartedAt: &seen},
			{Name: "west-3", ForgottenAt: &seen},
		}},
		"POST /api/v1/hosts/north-1/forget": forgotten,
	}
	s := newShell(t, f)
	testkit.Golden(t, "testdata/output/hosts.txt", s.ok("host", "ls")+s.ok("host", "forget", "--yes", "north-1"))
	if out := s.ok("host", "ls", "-q"); out != "north-1\nsouth-2\nwest-3\n" {
		t.Errorf("-q printed %q", out)
	}
	if got := decode[api.ForgottenHost](t, s.ok("host", "forget", "--json", "north-1")); len(got.Sandboxes) != 4 {
		t.Errorf("--json printed %+v", got)
	}
	forgotten.Sandboxes[0].Error = "the database did not answer"
	f.canned["POST /api/v1/hosts/north-1/forget"] = forgotten
	if r := s.berth("host", "forget", "north-1"); r.code != 125 || !strings.Contains(r.err, "run the command again") || !strings.Contains(r.out, "3 sandboxes") {
		t.Errorf("%+v", r)
	}
	f.canned["POST /api/v1/hosts/north-1/forget"] = api.CodeConflict
	if r := s.berth("host", "forget", "north-1"); r.code != 125 {
		t.Errorf("%+v", r)
	}
	if r := s.berth("host", "forget"); r.code != 125 && r.code != 2 || !strings.Contains(r.err, "NAME") {
		t.Errorf("%+v", r)
	}
}
