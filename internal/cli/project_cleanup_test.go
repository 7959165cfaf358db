package cli

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
)

const cleanupRequest = "POST /api/v1/projects/sandboxes/cleanup"

func TestProjectCleanupShowsWhatItDid(t *testing.T) {
	f := newFakeServer(t)
	f.canned = cannedLife()
	s := newShell(t, f)
	out := s.ok("project", "cleanup", "--max-idle", "1h")
	contains(t, "cleanup", out, "PROJECT  SANDBOX", "IDLE  ACTION", "shop     "+firstID+"  2 h   stopped\n", "25 h  terminated\n")
	if got := f.bodies[cleanupRequest]; got != `{"max_idle_seconds":3600}` {
		t.Errorf("sent %s", got)
	}
	if out := s.ok("project", "cleanup", "--max-idle", "1h", "-q"); out != "shop\nblog\n" {
		t.Errorf("-q printed %q", out)
	}
	if got := decode[api.ProjectCleanup](t, s.ok("project", "cleanup", "--max-idle", "1h", "--json")); len(got.Items) != 2 {
		t.Errorf("--json printed %+v", got)
	}
	f.canned[cleanupRequest] = api.ProjectCleanup{DryRun: true, More: true, Items: []api.CleanedProject{{ProjectID: "shop", Action: "stop"}}}
	if r := s.berth("project", "cleanup", "--max-idle", "1h", "--dry-run"); r.code != 0 || !strings.Contains(r.out, "would stop") || r.err != "There are more.\n" {
		t.Errorf("--dry-run: %+v", r)
	}
	if got := f.bodies[cleanupRequest]; got != `{"max_idle_seconds":3600,"dry_run":true}` {
		t.Errorf("--dry-run sent %s", got)
	}
	f.canned[cleanupRequest] = api.ProjectCleanup{}
	if r := s.berth("project", "cleanup", "--max-idle", "90m"); r.code != 0 || r.out != "" || r.err != "Nothing to let go of: no project's sandbox was idle for 1h30m.\n" {
		t.Errorf("nothing: %+v", r)
	}
	if out := s.ok("project", "cleanup", "--max-idle", "90m", "--json"); !strings.Contains(out, `"items": []`) {
		t.Errorf("nothing with --json: %q", out)
	}
	for _, args := range [][]string{{}, {"--max-idle", "0s"}, {"--max-idle", "-1h"}, {"--max-idle", "10ms"}} {
		if r := s.berth(append([]string{"project", "cleanup"}, args...)...); r.code != 125 || !strings.Contains(r.err, "needs --max-idle, a time of a second or more") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	f.canned[cleanupRequest] = api.CodeForbidden
	if r := s.berth("project", "cleanup", "--max-idle", "1h"); r.code != 125 || !strings.Contains(r.err, "clean up projects: not now") {
		t.Errorf("%+v", r)
	}
}

// TestProjectCleanupGoesOnUntilThereIsNoMore, and no longer than something comes of it.
func TestProjectCleanupGoesOnUntilThereIsNoMore(t *testing.T) {
	f := newFakeServer(t)
	rounds := []api.ProjectCleanup{
		{More: true, Items: []api.CleanedProject{{ProjectID: "a", Action: "stop", Done: true}}},
		{More: true, Items: []api.CleanedProject{{ProjectID: "b", Action: "stop", Error: "the driver is asleep\x1b[2J"}}},
	}
	asked := 0
	f.canned = map[string]any{cleanupRequest: func() any { asked++; return rounds[asked-1] }}
	r := newShell(t, f).berth("project", "cleanup", "--max-idle", "1h")
	if r.code != 125 || asked != 2 || !strings.Contains(r.out, "stopped\n") || !strings.Contains(r.out, `stop failed: the driver is asleep\x1b[2J`) {
		t.Errorf("%d rounds, %+v", asked, r)
	}
}

func TestProjectCleanupAsksAtATerminal(t *testing.T) {
	f := newFakeServer(t)
	would := api.ProjectCleanup{DryRun: true, More: true, Items: []api.CleanedProject{{ProjectID: "shop", Action: "stop"}}}
	f.canned = map[string]any{cleanupRequest: would}
	m := newTerminal(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Wait("Let go of more than 1 sandbox? [y/N]")
		f.mu.Lock()
		f.canned[cleanupRequest] = api.ProjectCleanup{Items: []api.CleanedProject{{ProjectID: "shop", Action: "stop", Done: true}}}
		f.mu.Unlock()
		m.Type("y\n")
	}()
	if r := newShell(t, f).at(m).berth("project", "cleanup", "--max-idle", "1h"); r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	<-done
	m.Wait("stopped")
	contains(t, "screen", m.Text(), "would stop", "stopped")
	f.canned[cleanupRequest] = api.ProjectCleanup{DryRun: true}
	if r := newShell(t, f).at(m).berth("project", "cleanup", "--max-idle", "1h"); r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	m.Wait("Nothing to let go of")
	f.canned[cleanupRequest] = api.CodeForbidden
	if r := newShell(t, f).at(m).berth("project", "cleanup", "--max-idle", "1h"); r.code != 125 {
		t.Errorf("exit %d", r.code)
	}
}
