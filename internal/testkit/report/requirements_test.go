package report

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
)

const requirementsFile = "../../../docs/requirements.md"

func TestRequirementsFileIsComplete(t *testing.T) {
	text, err := os.ReadFile(requirementsFile)
	if err != nil {
		t.Fatal(err)
	}
	table, err := ReadTable(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range table.Rows {
		got = append(got, row.ID)
		if row.Text == "" {
			t.Errorf("%s says nothing", row.ID)
		}
	}
	if want := testkit.Requirements(); !slices.Equal(got, want) {
		t.Errorf("rows %v\nwant each id once and in order: %v", got, want)
	}
	if table.String() != string(text) {
		t.Error("the rows are not written as make requirements would write them")
	}
}

func TestDoneNeedsAPassingTest(t *testing.T) {
	for name, c := range map[string]struct {
		row    string
		stream string
		code   int
		want   string
	}{
		"open without test":   {"| S5 | a | open | |", passing, 0, ""},
		"partly without test": {"| S5 | a | partly | |", passing, 0, ""},
		"done without test":   {"| S5 | a | done | |", passing, 1, "S5 is marked done, but no test"},
		"done with test":      {"| S5 | a | done | store.TestA |", events("attr store TestA S4 S5") + passing, 0, ""},
		"not yet listed":      {"| S5 | a | done | |", events("attr store TestA S5") + passing, 0, "lacks tests for [S5]: run make requirements"},
		"another id":          {"| S5 | a | done | |", events("attr store TestA S51") + passing, 1, "no test"},
		"another key":         {"| S5 | a | done | |", strings.ReplaceAll(events("attr store TestA S5"), "proves", "notes") + passing, 1, "no test"},
		"it failed":           {"| S5 | a | done | |", events("attr store TestA S5", "fail store TestA", "fail store -"), 1, "none of its tests passed: store.TestA"},
		"it was skipped":      {"| S5 | a | done | |", events("attr store TestA S5", "skip store TestA", "pass store -"), 1, "none of its tests passed"},
		"it was cut off":      {"| S5 | a | done | |", events("attr store TestA S5"), 1, "1 requirements were not checked, because not all tests of their packages ran: S5"},
		"not built":           {"| S5 | a | done | store.TestA |", events("fail store -") + strings.ReplaceAll(passing, "/store", "/turn"), 1, "1 requirements were not checked"},
		"all below skipped":   {"| S5 | a | done | |", events("attr store TestA S5", "skip store TestA/x") + passing, 1, "none of its tests passed"},
		"some below skipped":  {"| S5 | a | done | store.TestA |", events("attr store TestA S5", "pass store TestA/y") + passing, 0, ""},
		"in a subtest":        {"| S5 | a | done | `store.TestA` |", events("attr store TestA/y S5", "pass store TestA/y") + passing, 0, ""},
		"stale name":          {"| S5 | a | open | store.TestGone, store.TestA |", events("attr store TestA S5") + passing, 1, "S5 lists store.TestGone, which did not claim it"},
	} {
		code, out := judge(c.stream, "-requirements", file(t, "r.md", c.row+"\n"))
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", name, code, c.code, c.want, out)
		}
	}
}

func TestUpdateWritesTestsColumn(t *testing.T) {
	path := file(t, "r.md", "# Title\n\n| id | requirement | status | tests |\n|---|---|---|---|\n| S5 | a | done | store.TestGone |\n| S6 | b | open | |\n\nWords.\n")
	stream := events("attr store TestA S5", "attr store TestA/y S5", "pass store TestA/y", "attr turn TestB S5", "pass turn TestB", "attr turn TestC S6", "fail turn TestC") + passing
	code, out := judge(stream, "-requirements", path, "-update")
	if code != 0 || out != path+": 2 rows, 1 with tests\n" {
		t.Errorf("exit code %d, said %q", code, out)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "# Title\n\n| id | requirement | status | tests |\n|---|---|---|---|\n| S5 | a | done | store.TestA, turn.TestB |\n| S6 | b | open | |\n\nWords.\n"
	if string(got) != want {
		t.Errorf("wrote\n%s\nwant\n%s", got, want)
	}
}

func TestUpdateRefusesToEmptyTheColumn(t *testing.T) {
	for stream, path := range map[string]string{
		"":             file(t, "r.md", "| S5 | a | done | store.TestA |\n"),
		passing:        file(t, "r.md", "no rows"),
		passing + "\n": "/proc/version",
	} {
		if code, out := judge(stream, "-requirements", path, "-update"); code != 2 || out == "" {
			t.Errorf("%s: exit code %d, said %q", path, code, out)
		}
	}
}

func TestReadTableRefusesBadRows(t *testing.T) {
	for name, text := range map[string]string{
		"no rows":       "| id | requirement |\n|---|---|\n",
		"three columns": "| S5 | a | done |\n",
		"bad status":    "| S5 | a | nearly | |\n",
	} {
		if _, err := ReadTable(text); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}
