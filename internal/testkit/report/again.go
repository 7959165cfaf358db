package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// repeater runs failed tests a second time, alone. A test that then passes is unstable: it depends on how busy the
// machine is, or it found a rare bug. Either must be mended, so the report names it, but it does not fail the run.
type repeater struct {
	limit int            // no test is run again if more than limit test functions failed
	race  *regexp.Regexp // the packages that are tested with the race detector
	run   func(pkg, test string, race bool) (events io.Reader, err error)
}

// neverAgain are the words in the output of a test that is not run again: its first run has shown a bug.
var neverAgain = []string{"WARNING: DATA RACE", "panic: ", "fatal error: "}

// goTest runs one test function and returns its events.
func goTest(pkg, test string, race bool) (io.Reader, error) {
	dir, rest := ".", pkg
	if below, ok := strings.CutPrefix(pkg, Module+"/bench"); ok { // a module of its own
		dir, rest = "bench", "."+below
	}
	args := []string{"-C", dir, "test", "-json", "-count=1", "-timeout", "30m", "-run", "^" + test + "$"}
	cmd := exec.Command("go", append(args, rest)...)
	if race {
		cmd.Args = slices.Insert(cmd.Args, 4, "-race")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	out, err := cmd.Output()
	if len(out) > 0 {
		err = nil // the events have the result
	}
	return bytes.NewReader(out), err
}

// again runs the failed tests again and replaces the results of those that pass. It returns their names.
func (p *printer) again(rep repeater, res *results) (unstable []string, err error) {
	tests := res.repeatable(rep.limit)
	for _, t := range tests {
		fmt.Fprintf(p.out, "\nonce more, alone: %s\n", t)
		events, err := rep.run(t.pkg, t.name, rep.race != nil && rep.race.MatchString(t.pkg))
		if err != nil {
			return nil, fmt.Errorf("run %s again: %w", t, err)
		}
		second := newResults()
		if err := Events(events, func(e Event) { p.event(second, e) }, func(line string) { fmt.Fprintln(p.out, line) }); err != nil {
			return nil, fmt.Errorf("read events of %s: %w", t, err)
		}
		if res.replace(t, second) {
			unstable = append(unstable, t.String())
		}
	}
	return unstable, nil
}

// repeatable returns the test functions that failed, or none if there are more than limit, one of them must not be run
// again, or a package did not come to its end.
func (r *results) repeatable(limit int) (tests []*test) {
	for _, t := range r.sorted() {
		switch {
		case t.status == running, t.status == failed && t.fatal:
			return nil
		case t.status == failed && t.name == t.top():
			tests = append(tests, t)
		}
	}
	failing := map[string]bool{}
	for _, t := range tests {
		failing[t.pkg] = true
	}
	if len(tests) > limit || len(r.timeouts()) > 0 || len(r.brokenPackages(failing)) > 0 {
		return nil
	}
	return tests
}

// replace takes over the results of the test's second run if the test and its package passed.
func (r *results) replace(t *test, second *results) bool {
	pk := second.packages[t.pkg]
	if pk == nil || pk.status != passed || second.tests[[2]string{t.pkg, t.name}] == nil {
		return false
	}
	for key := range r.tests {
		if r.tests[key].pkg == t.pkg && r.tests[key].top() == t.name {
			delete(r.tests, key)
		}
	}
	for key, again := range second.tests {
		r.tests[key] = again
	}
	for _, other := range r.tests {
		if other.pkg == t.pkg && other.status == failed {
			return true
		}
	}
	r.packages[t.pkg].status = passed
	return true
}
