package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/testkit"
)

// TestExplainReads compares all that explain prints, as a terminal without colours shows it.
func TestExplainReads(t *testing.T) {
	f := newMachine(t)
	f.canned = cannedLife()
	var out bytes.Buffer
	deps := newShell(t, f).forFrame()
	deps.Stdout = &out
	frame := newApp(deps)
	frame.Out.TTY, frame.Now = true, func() time.Time { return birth }
	if err := frame.run(t.Context(), "explain", "scratch"); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "testdata/output/explain.txt", out.String())
}

func TestExplainInOtherForms(t *testing.T) {
	f := newMachine(t)
	f.canned = cannedLife()
	s := newShell(t, f)
	if out := s.ok("explain", "scratch", "-q"); out != "scratch runs. It was last used 3 minutes ago.\n" {
		t.Errorf("-q printed %q", out)
	}
	contains(t, "explain", s.ok("explain", "scratch"), "2026-11-15T03:12:00Z")
	if got := decode[api.Explanation](t, s.ok("explain", "scratch", "--json")); len(got.Ahead) != 4 || got.Sandbox.Name != "scratch" {
		t.Errorf("--json printed %+v", got)
	}
	f.sandboxes[0].Name = "scratch"
	if r := s.berth("explain", "scrotch"); r.code != 125 || !strings.Contains(r.err, "Did you mean scratch?") {
		t.Errorf("%+v", r)
	}
	f.canned["GET /api/v1/sandboxes/scratch/explain"] = api.Explanation{Summary: "It is gone.", Sandbox: api.Sandbox{DeletedAt: &birth},
		Because: make([]api.Transition, 8+1), Keeps: []string{"delete: nothing"}}
	if out := s.ok("explain", "scratch"); strings.Count(out, "\n") != 8+4 || !strings.Contains(out, "earlier") || strings.Contains(out, "What is kept") {
		t.Errorf("of a deleted one with a long life: %q", out)
	}
	f.canned["GET /api/v1/sandboxes/scratch/explain"] = api.Explanation{Summary: "It is new."}
	if out := s.ok("explain", "scratch"); out != "It is new.\n" {
		t.Errorf("what there is nothing to say about is said: %q", out)
	}
}

func TestSweepIsQuietWhenAllIsWell(t *testing.T) {
	f := newFakeServer(t)
	f.canned = cannedLife()
	s := newShell(t, f)
	if out := s.ok("sweep"); out != "nothing to do; 12 instances at local, 1 instance at fake\n" {
		t.Errorf("printed %q", out)
	}
	if out := s.ok("sweep", "-q"); out != "" {
		t.Errorf("-q printed %q", out)
	}
	s.ok("sweep", "--dry-run")
	if got := f.bodies["POST /api/v1/sweep"]; got != `{"dry_run":true}` {
		t.Errorf("sent %s", got)
	}
	if got := decode[api.Sweep](t, s.ok("sweep", "--json")); len(got.Drivers) != 2 {
		t.Errorf("--json printed %+v", got)
	}
	f.canned["POST /api/v1/sweep"] = api.CodeForbidden
	if r := s.berth("sweep"); r.code != 125 || !strings.Contains(r.err, "sweep: not now") {
		t.Errorf("%+v", r)
	}
}

func TestSweepShowsFindingsAndFailures(t *testing.T) {
	f := newFakeServer(t)
	sweep := api.Sweep{DryRun: true, Keys: 3, Holds: 1, Drivers: []api.DriverSweep{
		{Driver: "local", Instances: 5, Foreign: 2, Unreadable: 1, Findings: []api.SweepFinding{
			{Kind: "orphan", SandboxID: "o", Instance: "o-1", Action: "waits", Detail: "it is ended in 59m if no record claims it"},
			{Kind: "missing", SandboxID: "m", Instance: "m-1", Action: "kept", Detail: "a dry run"}}},
	}}
	f.canned = map[string]any{"POST /api/v1/sweep": sweep}
	s := newShell(t, f)
	testkit.Golden(t, "testdata/output/sweep.txt", s.ok("sweep", "-n"))
	if out := s.ok("sweep", "-q"); out != "o\nm\n" {
		t.Errorf("-q printed %q", out)
	}
	sweep.Drivers = append(sweep.Drivers, api.DriverSweep{Driver: "far", Error: "read the list of instances: it broke off"})
	f.canned["POST /api/v1/sweep"] = sweep
	if r := s.berth("sweep"); r.code != 125 || r.err != "berth: far: read the list of instances: it broke off; nothing was done about it\n" {
		t.Errorf("%+v", r)
	}
	sweep.Drivers = sweep.Drivers[1:]
	f.canned["POST /api/v1/sweep"] = sweep
	if r := s.berth("sweep"); r.code != 125 || r.out != "" {
		t.Errorf("a list that was not read is not an empty list: %+v", r)
	}
	sweep.Drivers = []api.DriverSweep{{Driver: "local", Findings: []api.SweepFinding{{Kind: "stray", Action: "failed", Detail: "refused"}}}}
	f.canned["POST /api/v1/sweep"] = sweep
	if r := s.berth("sweep", "--json"); r.code != 125 || r.err != "" || len(decode[api.Sweep](t, r.out).Drivers) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestTerminateArchiveAndRmSayWhetherToSave(t *testing.T) {
	f := newMachine(t)
	f.sandboxes = append(f.sandboxes, api.Sandbox{ID: "2", Name: "two", State: "running"})
	s := newShell(t, f)
	for _, c := range []struct{ line, out, request string }{
		{"terminate box", "terminated box\n", "POST /api/v1/sandboxes/box/terminate"},
		{"terminate --no-save box two", "terminated box\nterminated two\n", "POST /api/v1/sandboxes/two/terminate?sync=false"},
		{"rm --no-save two", "deleted two (2)\n  if a version of it is saved, this brings its files back: berth create --from 2\n", "DELETE /api/v1/sandboxes/2?sync=false"},
	} {
		if out := s.ok(strings.Fields(c.line)...); out != c.out {
			t.Errorf("%s printed %q", c.line, out)
		}
		if !slices.Contains(f.requests, c.request) {
			t.Errorf("%s sent %q", c.line, f.requests)
		}
	}
	contains(t, "archive", s.ok("archive", "box"), "archived box (")
	if got := decode[map[string][]string](t, s.ok("terminate", "box", "--json")); fmt.Sprint(got) != "map[terminated:[box]]" {
		t.Errorf("--json printed %v", got)
	}
	if r := s.berth("terminate", "nosuch"); r.code != 125 || strings.Contains(r.err, "makes this one") {
		t.Errorf("%+v", r)
	}
	f.canned = map[string]any{"POST /api/v1/sandboxes/box/archive": api.CodeUnsupported}
	if r := s.berth("archive", "box"); r.code != 125 || !strings.Contains(r.err, "archive sandbox: not now") {
		t.Errorf("%+v", r)
	}
}

func TestTerminateAsksAtATerminal(t *testing.T) {
	f := newMachine(t)
	m := newTerminal(t)
	done := make(chan struct{})
	go func() { defer close(done); m.Wait("Its files are lost. [y/N]"); m.Type("no\n") }()
	if r := newShell(t, f).at(m).berth("terminate", "--no-save", "box"); r.code != 125 {
		t.Errorf("exit %d", r.code)
	}
	<-done
	m.Wait("nothing was changed")
	contains(t, "screen", m.Text(), "End the machine of sandbox box?")
	if f.sandboxes[0].State != "running" {
		t.Errorf("it is %s", f.sandboxes[0].State)
	}
}

// TestLifeTextCannotDriveTheTerminal: whatever is told of projects, sweeps and reasons is as foreign as the
// rest.
func TestLifeTextCannotDriveTheTerminal(t *testing.T) {
	f := newProject(t)
	evil := "a\x1b]52;c;aGk=\x07b\u009b2Jc\u202edcba\x7f\nd\rе\u2028f"
	f.projects[0] = api.ProjectSandbox{ProjectID: "shop", SandboxID: evil, Status: evil, Driver: evil, Template: evil, ErrorMessage: evil, Metadata: map[string]string{evil: evil}}
	f.sandboxes[0].Owner.ID = evil
	f.canned = map[string]any{
		"GET " + shopPath + "/health":           api.ProjectHealth{Status: evil, Actual: evil, Detail: evil},
		"GET " + shopPath + "/sync":             api.ProjectSync{ProjectID: evil, Recorded: evil, Actual: evil, Detail: evil, Would: []string{evil}},
		"GET " + shopPath + "/tools":            api.ToolList{Items: []api.Tool{{Name: evil, Description: evil}}, Servers: []api.ToolServer{{Name: evil, Problem: evil}}},
		cleanupRequest:                          api.ProjectCleanup{Items: []api.CleanedProject{{ProjectID: evil, SandboxID: evil, Action: evil, Error: evil}, {Action: evil, Done: true}}},
		"POST /api/v1/sweep":                    api.Sweep{Drivers: []api.DriverSweep{{Driver: evil, Error: evil, Findings: []api.SweepFinding{{Kind: evil, SandboxID: evil, Instance: evil, Action: evil, Detail: evil}}}, {Driver: evil}}},
		"GET /api/v1/sandboxes/scratch/explain": api.Explanation{Summary: evil, Because: []api.Transition{{From: evil, Reason: evil, Actor: evil, Want: evil}}, Ahead: []api.Prospect{{What: evil, Why: evil, Off: evil}, {What: evil, Why: evil}}, Holds: []api.Hold{{Kind: evil}}, Left: []string{evil}, Keeps: []string{evil}},
	}
	s := newShell(t, f)
	for _, line := range []string{
		"ls", "project get shop", "project get shop -q", "project get shop --json", "project ls", "project ensure shop", "project ensure shop -q",
		"project health shop", "project sync shop", "project tools shop", "project tools shop -q", "project cleanup --max-idle 1h",
		"sweep", "sweep -q", "sweep --json", "explain scratch", "explain scratch -q", "explain scratch --json",
	} {
		r := s.berth(strings.Fields(line)...)
		for i, c := range r.out + r.err {
			if c != '\n' && ui.Unprintable(c) {
				t.Errorf("%s printed %U at %d of %q", line, c, i, r.out+r.err)
				break
			}
		}
		if strings.Contains(r.out+r.err, "\nd") {
			t.Errorf("%s printed a line break of the server's: %q", line, r.out+r.err)
		}
	}
}
