package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// events writes a stream of "go test -json" by hand: "action package test [detail]" per line.
func events(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		f := strings.SplitN(line+"    ", " ", 4)
		action, pkg, test, detail := f[0], Module+"/internal/"+f[1], f[2], strings.TrimSpace(f[3])
		if test == "-" {
			test = ""
		}
		switch action {
		case "attr":
			fmt.Fprintf(&b, `{"Action":"attr","Package":%q,"Test":%q,"Key":"proves","Value":%q}`+"\n", pkg, test, detail)
		case "output":
			fmt.Fprintf(&b, `{"Action":"output","Package":%q,"Test":%q,"Output":%q}`+"\n", pkg, test, detail+"\n")
		case "build-output":
			fmt.Fprintf(&b, `{"Action":"build-output","ImportPath":%q,"Output":%q}`+"\n", pkg, detail+"\n")
		default:
			fmt.Fprintf(&b, `{"Action":%q,"Package":%q,"Test":%q,"Elapsed":%s}`+"\n", action, pkg, test, orZero(detail))
		}
	}
	return b.String()
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// judge runs the command on a stream and returns its exit code and all it printed.
func judge(stream string, args ...string) (int, string) {
	var out bytes.Buffer
	code := Main(args, strings.NewReader(stream), &out, &out)
	return code, out.String()
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

var passing = events("start store -", "run store TestA", "output store TestA quiet words", "pass store TestA 1.5", "pass store - 2")

func TestEveryPackageHasAResult(t *testing.T) {
	store, turn := Module+"/internal/store", Module+"/internal/turn"
	if code, out := judge(passing, "-packages", store); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	for name, stream := range map[string]string{"go test did not start": passing, "cut off": passing + events("start turn -")} {
		if code, out := judge(stream, "-packages", store+"\n"+turn); code != 1 || !strings.Contains(out, "package turn has no result") {
			t.Errorf("%s: exit code %d: %s", name, code, out)
		}
	}
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		code   int
		want   []string
		not    string
	}{
		"all pass":       {passing, 0, []string{"ok    store", "1.50s  store.TestA", "\n1 passed, 0 failed, 0 skipped\n"}, "quiet words"},
		"nothing ran":    {"", 1, []string{"no test ran", "0 passed, 0 failed"}, ""},
		"no test files":  {events("start store -", "skip store -"), 1, []string{"no tests", "no test ran"}, ""},
		"test fails":     {events("run store TestA", "output store TestA === RUN TestA", "output store TestA it broke", "fail store TestA", "fail store -"), 1, []string{"✗ store.TestA", "it broke", "FAIL  store", "failed\n  store.TestA\n", "0 passed, 1 failed"}, "=== RUN"},
		"build fails":    {passing + events("build-output turn - x.go:1: undefined", "build-fail turn -", "start turn -", "output turn - FAIL turn [build failed]", "fail turn -"), 1, []string{"x.go:1: undefined", "package turn", "1 passed, 1 failed"}, ""},
		"build of none":  {passing + events("build-output turn - x.go:1: undefined"), 0, []string{"x.go:1: undefined"}, ""},
		"cut off":        {passing + events("start turn -", "run turn TestB"), 1, []string{"turn.TestB did not finish", "1 passed, 1 failed"}, ""},
		"cut off early":  {passing + events("start turn -"), 1, []string{"package turn did not finish", "1 passed, 1 failed"}, ""},
		"TestMain fails": {passing + events("start turn -", "output turn - no database", "fail turn -"), 1, []string{"no database", "package turn", "1 passed, 1 failed"}, ""},
		"plain text":     {"go: no such tool\n" + passing, 0, []string{"go: no such tool"}, ""},
		"second run":     {events("fail store TestA", "fail store -") + passing, 1, []string{"0 passed, 1 failed"}, ""},
		"skip":           {passing + events("run store TestB", "output store TestB === RUN TestB", "output store TestB a_test.go:3: no luck", "output store TestB --- SKIP: TestB", "skip store TestB"), 1, []string{"store.TestB was skipped: a_test.go:3: no luck\n", "1 passed, 0 failed, 1 skipped"}, ""},
		"silent skip":    {passing + events("skip store TestB"), 1, []string{"it gave no reason"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := judge(c.stream)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q", want)
				}
			}
			if c.not != "" && strings.Contains(out, c.not) {
				t.Errorf("%q should not show", c.not)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

func TestClosingLineIsLast(t *testing.T) {
	_, out := judge(passing)
	if !strings.HasSuffix(out, "\n\n1 passed, 0 failed, 0 skipped\n") {
		t.Errorf("ends with %q", out[max(0, len(out)-60):])
	}
}

func TestSlowestListsTestFunctionsOnly(t *testing.T) {
	var lines []string
	for n := range 12 {
		lines = append(lines, fmt.Sprintf("pass store Test%02d %d", n, n), fmt.Sprintf("pass store Test%02d/sub %d", n, n))
	}
	_, out := judge(events(lines...))
	_, list, _ := strings.Cut(out, "slowest tests\n")
	list, _, _ = strings.Cut(list, "\n\n")
	got := strings.Split(list, "\n")
	if len(got) != 10 || !strings.HasSuffix(got[0], "store.Test11") || !strings.HasSuffix(got[9], "store.Test02") {
		t.Errorf("listed\n%s", list)
	}
	if _, out := judge(passing, "-slowest", "0"); strings.Contains(out, "slowest") {
		t.Error("-slowest 0 still lists tests")
	}
}

func TestAllowedSkips(t *testing.T) {
	stream := passing + events("skip store TestB/sub", "skip store TestC")
	for name, c := range map[string]struct {
		text string
		code int
		want string
	}{
		"both named":       {"# why\n\nstore\\.TestB/sub | the kernel lacks it\nstore\\.TestC | the kernel lacks it\n", 0, "2 skipped"},
		"one named":        {`store\.TestB/.* | the kernel lacks it`, 1, "store.TestC was skipped"},
		"no partial match": {`store\.TestB | the kernel lacks it` + "\n" + `TestC | x`, 1, "store.TestB/sub was skipped"},
		"no reason":        {`store\.TestC`, 2, "line 1"},
		"empty reason":     {`store\.TestC | `, 2, "line 1"},
		"bad pattern":      {`( | x`, 2, "line 1"},
		"not root":         {`store\.TestC | needs root`, 2, "never a reason"},
		"not PostgreSQL":   {`store\.TestC | PostgreSQL is missing`, 2, "never a reason"},
	} {
		code, out := judge(stream, "-skips", file(t, "skips", c.text))
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", name, code, c.code, c.want, out)
		}
	}
}

func TestCoverageFloor(t *testing.T) {
	stream := passing + events("output store - coverage: 89.9% of statements", "pass store -",
		"output testkit/cmd/tool - coverage: 0.0% of statements", "pass testkit/cmd/tool -",
		"output driver/drivertest - coverage: 0.0% of statements", "pass driver/drivertest -")
	if code, out := judge(stream); code != 0 {
		t.Errorf("without a floor: exit code %d\n%s", code, out)
	}
	code, out := judge(stream, "-min-coverage", "90")
	if code != 1 || !strings.Contains(out, "store has 89.9 % of its statements covered, want 90") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if strings.Contains(out, "tool has") || strings.Contains(out, "drivertest has") {
		t.Errorf("commands and suites are exempt:\n%s", out)
	}
	if code, out := judge(stream, "-min-coverage", "85"); code != 0 || !strings.Contains(out, "89.9 %") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestMainSaysWhatItCannotDo(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none", "x")
	for _, args := range [][]string{
		{"-nonsense"},
		{"-skips", none},
		{"-requirements", none},
		{"-requirements", file(t, "r.md", "no table")},
		{"-save", none},
		{none},
	} {
		if code, out := judge(passing, args...); code != 2 || out == "" {
			t.Errorf("%q: exit code %d, said %q", args, code, out)
		}
	}
	var out bytes.Buffer
	if code := Main(nil, iotest.ErrReader(errors.New("pipe broke")), &out, &out); code != 2 || !strings.Contains(out.String(), "pipe broke") {
		t.Errorf("exit code %d, said %q", code, out.String())
	}
}

func TestSavedEventsReadTheSame(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "events")
	_, first := judge(passing, "-save", saved)
	code, second := judge("", saved)
	if code != 0 || first != second {
		t.Errorf("exit code %d; first\n%s\nsecond\n%s", code, first, second)
	}
}

func TestTimeoutIsNamedAndItsFollowUpsAreNot(t *testing.T) {
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=2s", "./testdata/demo")
	cmd.Env = append(os.Environ(), "BERTH_DEMO_HANGS=1")
	out, _ := cmd.Output() // the report judges it
	table := file(t, "r.md", "| X3 | a | done | testkit/report/testdata/demo.TestHangs |\n| X4 | b | done | testkit/report/testdata/demo.TestComesLast |\n| X9 | c | done | |\n")
	code, said := judge(string(out), "-requirements", table)
	for _, want := range []string{
		"package testkit/report/testdata/demo timed out after 2s; running: TestHangs/for_ever (",
		"2 requirements were not checked, because not all tests of their packages ran: X3 X4\n",
		"requirement X9 is marked done, but no test",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q", want)
		}
	}
	if _, closing, _ := strings.Cut(said, "\nfailed\n"); code != 1 || strings.Count(closing, "demo") != 1 || t.Failed() {
		t.Errorf("exit code %d\n%s", code, said)
	}
}

func TestRealGoTest(t *testing.T) {
	run := func(env string) string {
		cmd := exec.Command("go", "test", "-json", "-count=1", "./testdata/demo")
		cmd.Env = append(os.Environ(), env)
		out, _ := cmd.Output() // the report judges it
		return string(out)
	}
	table := file(t, "r.md", "| X5 | a | done | |\n| X6 | b | done | |\n| X7 | c | done | |\n| X8 | d | done | |\n")
	code, out := judge(run("BERTH_DEMO_FAILS=1"), "-requirements", table)
	for _, want := range []string{
		"the reason is here",
		"requirement X5 is marked done, but none of its tests passed",
		"requirement X6 is marked done, but none of its tests passed",
		"requirement X7 is marked done, but none of its tests passed",
		"4 passed, 2 failed, 2 skipped",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if code != 1 || strings.Contains(out, "X8 is marked") || strings.Contains(out, "nobody reads this") || t.Failed() {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
