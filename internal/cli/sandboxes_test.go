package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/fault"
)

func dataDirLocked(why, hint string) error {
	e := fault.Errorf("lock data directory", api.CodeDataDirLocked, "%s", why)
	e.Hint = hint
	return e
}

func TestCreateShowsWhatItMade(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	contains(t, "first create", s.ok("create", "scratch"), "scratch is running (made in ", "01970e4b-0000-7000-8000-000000000001", "fake")
	contains(t, "second create", s.ok("create", "scratch"), "scratch is running (was there already)")
	if out := s.ok("create", "-q"); out != "01970e4b-0000-7000-8000-000000000002\n" {
		t.Errorf("-q printed %q", out)
	}
	got := decode[api.Sandbox](t, s.ok("create", "third", "--json"))
	if got.Name != "third" || got.State != "running" {
		t.Errorf("--json printed %+v", got)
	}
}

func TestCreateSendsWhatTheFlagsSay(t *testing.T) {
	f := newFakeServer(t)
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# comment\n\nA=file\nB=x=y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newShell(t, f).with("TOKEN", "hunter2")
	s.ok("create", "scratch", "--id", "i", "--template", "t", "--driver", "d", "--profile", "lite",
		"-e", "TOKEN", "-e", "A=flag", "--env-file", file, "-m", "team=blue", "--metadata", "k=")
	got := f.created[0]
	if got.ID != "i" || got.Name != "scratch" || got.Template != "t" || got.Driver != "d" || got.Profile != "lite" {
		t.Errorf("sent %+v", got)
	}
	if want := map[string]string{"TOKEN": "hunter2", "A": "flag", "B": "x=y"}; !maps.Equal(got.Env, want) {
		t.Errorf("sent env %v, want %v", got.Env, want)
	}
	if want := map[string]string{"team": "blue", "k": ""}; !maps.Equal(got.Metadata, want) {
		t.Errorf("sent metadata %v, want %v", got.Metadata, want)
	}
}

func TestCreateRefusesFlagsItCannotRead(t *testing.T) {
	f := newFakeServer(t)
	long := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(long, []byte("A="+strings.Repeat("x", (1<<20))), 0o600); err != nil {
		t.Fatal(err)
	}
	odd := map[string]string{"name": "# x\nA=1\nB-hunter2=1\n", "none": "hunter2\n", "nul": "A=hunter2\x00\n"}
	for name, text := range odd {
		odd[name] = filepath.Join(filepath.Dir(long), name)
		if err := os.WriteFile(odd[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, args := range map[string][]string{
		"NOSUCH is not set here":               {"--env", "NOSUCH"},
		`--env "": the name has to`:            {"--env", "=hunter2"},
		`--env "A B": the name`:                {"--env", "A B=hunter2"},
		`--env "1A": the name`:                 {"--env", "1A"},
		"line 3 of " + odd["name"]:             {"--env-file", odd["name"]},
		odd["none"] + ": it has no =":          {"--env-file", odd["none"]},
		odd["nul"] + ": the value holds a NUL": {"--env-file", odd["nul"]},
		"--metadata needs KEY=VALUE":           {"--metadata", "hunter2"},
		"read --env-file: open":                {"--env-file", "/nosuch"},
		"is larger than 1048576":               {"--env-file", long},
	} {
		r := newShell(t, f).berth(append([]string{"create"}, args...)...)
		if r.code != 125 || !strings.Contains(r.err, want) || strings.Contains(r.err, "hunter2") {
			t.Errorf("%v: exit %d, stderr %q; want %q and no value", args, r.code, r.err, want)
		}
	}
	if len(f.created) > 0 {
		t.Errorf("sent %v", f.created)
	}
}

func TestLsShowsEveryPageInTheFormAsked(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	for i := range 5 {
		s.ok("create", fmt.Sprint("box-", i), "-q")
	}
	out := s.ok("ls")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[0], "NAME   ID ") {
		t.Fatalf("table:\n%s", out)
	}
	contains(t, "row", lines[1], "box-0  01970e4b-0000-7000-8000-000000000001  running", "2026-11-15T03:00:00Z")
	if ids := strings.Fields(s.ok("ls", "-q")); len(ids) != 5 || ids[4] != "01970e4b-0000-7000-8000-000000000005" {
		t.Errorf("-q printed %q", ids)
	}
	if got := decode[api.List[api.Sandbox]](t, s.ok("ls", "--json")); len(got.Items) != 5 || got.Items[4].Name != "box-4" {
		t.Errorf("--json printed %+v", got)
	}
	if got := decode[api.List[api.Sandbox]](t, s.ok("list", "--json", "--limit", "3")); len(got.Items) != 3 {
		t.Errorf("--limit 3 printed %d", len(got.Items))
	}
}

func TestLsSendsItsFilters(t *testing.T) {
	f := newFakeServer(t)
	newShell(t, f).ok("ls", "--json", "--state", "running", "--driver", "fake", "--template", "none")
	if want := "GET /api/v1/sandboxes?driver=fake&limit=200&state=running&template=none"; f.requests[0] != want {
		t.Errorf("sent %s, want %s", f.requests[0], want)
	}
}

func TestEmptyListSaysWhetherItWasNarrowed(t *testing.T) {
	s := newShell(t, newFakeServer(t))
	contains(t, "bare ls", s.berth("ls").err, "No sandboxes yet")
	for _, flag := range []string{"--state", "--driver", "--template"} {
		if r := s.berth("ls", flag, "x"); r.code != 0 || r.err != "No sandbox is like that. 'berth ls' alone lists all.\n" {
			t.Errorf("ls %s: %+v", flag, r)
		}
	}
}

func TestLimitThatIsNone(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	for _, given := range []string{"-1", "0", "x", "1e3", "99999999999999999999"} {
		for _, args := range [][]string{{"ls"}, {"history", "scratch"}} {
			r := s.berth(append(args, "--limit", given)...)
			if r.code != 125 || !strings.Contains(r.err, "must be an integer ≥ 1") || strings.Contains(r.err, "strconv") {
				t.Errorf("%s --limit %s: %+v", args[0], given, r)
			}
		}
	}
	if len(f.requests) > 0 {
		t.Errorf("sent %v", f.requests)
	}
}

func TestEmptyListIsStillJSON(t *testing.T) {
	got := decode[map[string][]any](t, newShell(t, newFakeServer(t)).ok("ls", "--json"))
	if items, ok := got["items"]; !ok || items == nil || len(items) != 0 {
		t.Errorf("printed %v, want an empty array", got)
	}
}

func TestGetShowsEverythingKnown(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	s.ok("create", "scratch", "-e", "A=1", "-m", "team=blue", "-q")
	box := &f.sandboxes[0]
	box.StartedAt, box.DeletedAt = &birth, &birth
	box.Error = &api.SandboxError{Code: api.CodeCreateFailed, Message: "no room", At: birth, Attempts: 3}
	out := s.ok("get", "scratch")
	contains(t, "get", out, "scratch", "sandbox scratch", "running", "team=blue", "env          A\n",
		"no room (sandbox_create_failed, 2026-11-15T03:00:00Z, failures in a row: 3)", "deleted      2026")
	if strings.Contains(out, "instance") {
		t.Errorf("a value that is missing is shown:\n%s", out)
	}
	if got := decode[api.Sandbox](t, s.ok("get", "scratch", "--json")); got.Name != "scratch" || got.Error.Attempts != 3 {
		t.Errorf("--json printed %+v", got)
	}
}

func TestHistoryShowsChanges(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	s.ok("create", "scratch", "-q")
	if r := s.berth("history", "scratch"); r.code != 0 || !strings.Contains(r.err, "Nothing has happened") {
		t.Errorf("empty history: %+v", r)
	}
	f.history = []api.Transition{
		{Seq: 3, At: birth, Event: "want", To: "running", From: "running", Want: "gone", Actor: "key k1"},
		{Seq: 2, At: birth, Event: "created", From: "creating", To: "running"},
		{Seq: 1, At: birth, Event: "create", To: "creating", Reason: "asked"},
	}
	out := s.ok("history", "scratch")
	contains(t, "history", out, "creating → running", "key k1", "asked", "WHEN")
	if got := decode[api.List[api.Transition]](t, s.ok("history", "scratch", "--limit", "2", "--json")); len(got.Items) != 2 {
		t.Errorf("--limit 2 printed %d", len(got.Items))
	}
}

func TestRmTriesAllAndTellsEach(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	s.ok("create", "one", "-q")
	s.ok("create", "two", "-q")
	r := s.berth("rm", "one", "nosuch", "two")
	if r.code != 125 || strings.Count(r.out, "deleted ") != 2 || !strings.Contains(r.err, `no sandbox "nosuch"`) {
		t.Errorf("rm: %+v", r)
	}
	if len(f.sandboxes) != 0 {
		t.Errorf("left %v", f.sandboxes)
	}
	s.ok("create", "one", "-q")
	if got := decode[map[string][]string](t, s.ok("rm", "one", "--json")); fmt.Sprint(got) != "map[deleted:[one]]" {
		t.Errorf("--json printed %v", got)
	}
}

func TestServerTextCannotDriveTheTerminal(t *testing.T) {
	f := newFakeServer(t)
	evil := "a\x1b]52;c;aGk=\x07b\u009b2Jc\u202edcba\x7f\nd\rе\u2028f" + "\U000e0041"
	f.sandboxes = []api.Sandbox{{ID: evil, Name: evil, State: evil, Driver: evil, Want: evil, Metadata: map[string]string{evil: evil},
		Error: &api.SandboxError{Message: evil}, CreatedAt: birth, ActiveAt: birth, Owner: api.Owner{ID: evil}, Env: []string{evil}}}
	f.keys = []api.Key{{ID: evil, Label: evil, Prefix: evil, Scope: api.Scope(evil)}}
	f.history = []api.Transition{{Event: evil, Reason: evil, Actor: evil, From: evil, To: "x"}}
	s := newShell(t, f)
	for _, args := range [][]string{
		{"ls"}, {"ls", "-q"}, {"ls", "--json"}, {"get", evil}, {"get", evil, "--json"}, {"history", evil},
		{"keys", "ls"}, {"keys", "ls", "-q"}, {"get", "x" + evil}, {"create", evil}, {"create", evil, "-q"},
		{"rm", "x" + evil}, {"rm", evil},
	} {
		r := s.berth(args...)
		for i, c := range r.out + r.err {
			if c != '\n' && ui.Unprintable(c) {
				t.Errorf("%q printed %U at %d of %q", args[:1], c, i, r.out+r.err)
				break
			}
		}
		if strings.Count(r.out+r.err, "\nd") > 0 {
			t.Errorf("%q printed a line break of the server's: %q", args[:1], r.out+r.err)
		}
	}
}

func TestJSONMeansTheSameAfterEscaping(t *testing.T) {
	f := newFakeServer(t)
	evil := "\x1b[2J\u009b\u202e\x7f\U000e0041é漢"
	f.sandboxes = []api.Sandbox{{ID: "1", Name: evil}}
	s := newShell(t, f)
	if got := decode[api.List[api.Sandbox]](t, s.ok("ls", "--json")); got.Items[0].Name != evil {
		t.Errorf("read back %q", got.Items[0].Name)
	}
}

func TestLongListIsAlignedWhileItIsRead(t *testing.T) {
	f := newFakeServer(t)
	for i := range 3 * tableBatch {
		f.sandboxes = append(f.sandboxes, api.Sandbox{ID: fmt.Sprint("id-", i), Name: strings.Repeat("n", 1+i/tableBatch*10), State: "running"})
	}
	lines := strings.Split(strings.TrimSpace(newShell(t, f).ok("ls")), "\n")
	if len(lines) != 3*tableBatch+1 {
		t.Fatalf("%d lines", len(lines))
	}
	if at := strings.Index(lines[len(lines)-1], "id-"); at != 23 {
		t.Errorf("the last batch begins its second column at %d, want 23", at)
	}
}
