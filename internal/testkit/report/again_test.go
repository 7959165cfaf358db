package report

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// second is a run function whose tests pass or fail as they are listed.
func second(passing ...string) func(pkg, test string, race bool) (io.Reader, error) {
	return func(pkg, test string, race bool) (io.Reader, error) {
		name, action := Short(pkg), "fail"
		if slices.Contains(passing, name+"."+test) {
			action = "pass"
		}
		return strings.NewReader(events("run "+name+" "+test, "attr "+name+" "+test+" S5", action+" "+name+" "+test, action+" "+name+" -")), nil
	}
}

func TestFailedTestsRunAgain(t *testing.T) {
	failing := events("start store -", "run store TestA", "run store TestA/sub", "fail store TestA/sub", "fail store TestA", "run store TestB", "pass store TestB", "fail store -")
	both := failing + events("run turn TestC", "fail turn TestC", "fail turn -")
	for name, c := range map[string]struct {
		stream   string
		limit    int
		passing  []string
		unstable []string
		ok       bool
	}{
		"passes alone":          {failing, 1, []string{"store.TestA"}, []string{"store.TestA"}, true},
		"fails again":           {failing, 1, nil, nil, false},
		"one of two passes":     {both, 2, []string{"store.TestA"}, []string{"store.TestA"}, false},
		"both pass":             {both, 2, []string{"store.TestA", "turn.TestC"}, []string{"store.TestA", "turn.TestC"}, true},
		"more than the limit":   {both, 1, []string{"store.TestA", "turn.TestC"}, nil, false},
		"no limit given":        {failing, 0, []string{"store.TestA"}, nil, false},
		"data race":             {events("run store TestA", "output store TestA WARNING: DATA RACE", "fail store TestA", "fail store -"), 1, []string{"store.TestA"}, nil, false},
		"race beside a failure": {both + events("run store TestD", "output store TestD WARNING: DATA RACE", "fail store TestD"), 5, []string{"store.TestA", "turn.TestC"}, nil, false},
		"a package broke":       {failing + events("start turn -", "fail turn -"), 5, []string{"store.TestA"}, nil, false},
		"a test did not finish": {failing + events("run turn TestC"), 5, []string{"store.TestA"}, nil, false},
	} {
		res := newResults()
		if err := Events(strings.NewReader(c.stream), func(e Event) { res.add(e) }, func(string) {}); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p := &printer{out: &out}
		unstable, err := p.again(repeater{limit: c.limit, run: second(c.passing...)}, res)
		if err != nil || !slices.Equal(unstable, c.unstable) {
			t.Errorf("%s: unstable %q, %v, want %q", name, unstable, err, c.unstable)
		}
		if ok := p.finish(res, nil, 0); ok != c.ok {
			t.Errorf("%s: passed %v, want %v:\n%s", name, ok, c.ok, &out)
		}
	}
}

// A second run proves requirements as a first one does.
func TestSecondRunProves(t *testing.T) {
	res := newResults()
	_ = Events(strings.NewReader(events("run store TestA", "fail store TestA", "fail store -")), func(e Event) { res.add(e) }, func(string) {})
	p := &printer{out: io.Discard}
	if _, err := p.again(repeater{limit: 1, run: second("store.TestA")}, res); err != nil {
		t.Fatal(err)
	}
	if claim := res.proofs("S5"); len(claim) != 1 || !res.holds(claim[0]) {
		t.Errorf("the proofs are %v", claim)
	}
}

func TestSecondRunThatCannotStart(t *testing.T) {
	res := newResults()
	_ = Events(strings.NewReader(events("run store TestA", "fail store TestA", "fail store -")), func(e Event) { res.add(e) }, func(string) {})
	broken := func(string, string, bool) (io.Reader, error) { return nil, errors.New("no go") }
	if _, err := (&printer{out: io.Discard}).again(repeater{limit: 1, run: broken}, res); err == nil || !strings.Contains(err.Error(), "run store.TestA again: no go") {
		t.Errorf("the error is %v", err)
	}
}

// The second run is a real one of the go command, with the race detector where the first had it.
func TestGoTestRunsOneTest(t *testing.T) {
	race := regexp.MustCompile("/readahead$")
	t.Chdir("../../..")
	for pkg, name := range map[string]string{
		Module + "/internal/testkit/report": "TestVerdict",
		Module + "/internal/readahead":      "TestReadingEndsWithItsReader",
		Module + "/bench":                   "TestAFigureSaysWhetherItMeetsItsGoals",
	} {
		events, err := goTest(pkg, name, race.MatchString(pkg))
		if err != nil {
			t.Fatal(err)
		}
		res := newResults()
		if err := Events(events, func(e Event) { res.add(e) }, func(string) {}); err != nil {
			t.Fatal(err)
		}
		if got := res.tests[[2]string{pkg, name}]; got == nil || got.status != passed {
			t.Errorf("%s of %s: %+v", name, pkg, got)
		}
	}
}
