package report

import (
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/testkit"
)

// status is the result of a test or a package. The status running means that it has not ended.
type status string

const (
	running status = "running"
	passed  status = "pass"
	failed  status = "fail"
	skipped status = "skip"
)

// test is one test or subtest of one package.
type test struct {
	pkg, name string
	status    status
	elapsed   float64
	output    []string
	proves    []string
	fatal     bool // the output has one of neverAgain
}

// top returns the name of the test function, without the names of subtests.
func (t *test) top() string {
	name, _, _ := strings.Cut(t.name, "/")
	return name
}

// String returns the test's name in the form of docs/requirements.md and allowed_skips.txt.
func (t *test) String() string { return Short(t.pkg) + "." + t.name }

// pkg is the test run of one package. Its output holds the lines that belong to no test.
type pkg struct {
	path     string
	status   status
	elapsed  float64
	output   []string
	tests    int
	coverage float64 // in percent; negative if not measured
	timeout  timeout
}

// results collects the results from a stream of events.
type results struct {
	tests    map[[2]string]*test
	packages map[string]*pkg
	builds   []string // output of failed builds
}

func newResults() *results {
	return &results{tests: map[[2]string]*test{}, packages: map[string]*pkg{}}
}

// add records one event. It returns the test or the package that ended with this event, or nil.
func (r *results) add(e Event) (*test, *pkg) {
	switch {
	case e.Action == "build-output":
		r.builds = append(r.builds, e.Output)
		return nil, nil
	case e.Package == "":
		return nil, nil
	}
	if e.Action == "output" {
		r.packageOf(e).timeout.note(e.Output)
	}
	if e.Test == "" {
		return nil, r.packageOf(e).add(e)
	}
	return r.testOf(e).add(e), nil
}

func (r *results) packageOf(e Event) *pkg {
	p := r.packages[e.Package]
	if p == nil {
		p = &pkg{path: e.Package, status: running, coverage: -1}
		r.packages[e.Package] = p
	}
	return p
}

func (r *results) testOf(e Event) *test {
	key := [2]string{e.Package, e.Test}
	t := r.tests[key]
	if t == nil {
		t = &test{pkg: e.Package, name: e.Test, status: running}
		r.tests[key] = t
		r.packageOf(e).tests++
	}
	return t
}

func (p *pkg) add(e Event) *pkg {
	switch e.Action {
	case "output":
		p.output = append(p.output, e.Output)
		if percent, ok := parseCoverage(e.Output); ok {
			p.coverage = percent
		}
	case "pass", "fail", "skip":
		p.elapsed += e.Elapsed
		p.status = worse(p.status, status(e.Action))
		return p
	}
	return nil
}

func (t *test) add(e Event) *test {
	switch e.Action {
	case "output":
		t.output = append(t.output, e.Output)
		t.fatal = t.fatal || slices.ContainsFunc(neverAgain, func(words string) bool { return strings.Contains(e.Output, words) })
	case "attr":
		if e.Key == testkit.ProvesKey {
			t.proves = append(t.proves, strings.Fields(e.Value)...)
		}
	case "pass", "fail", "skip":
		t.elapsed += e.Elapsed
		t.status = worse(t.status, status(e.Action))
		return t
	}
	return nil
}

// worse returns the worse of two results. If a test runs several times, one failure or skip decides its result.
func worse(old, new status) status {
	order := []status{running, passed, skipped, failed}
	if slices.Index(order, old) > slices.Index(order, new) {
		return old
	}
	return new
}

// sorted returns the tests by name.
func (r *results) sorted() []*test {
	var all []*test
	for _, t := range r.tests {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *test) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// proofs returns the tests that claim with testkit.Proves to prove the requirement.
func (r *results) proofs(id string) []*test {
	var claim []*test
	for _, t := range r.sorted() {
		if slices.Contains(t.proves, id) {
			claim = append(claim, t)
		}
	}
	return claim
}

// holds reports whether t proves its requirements: it passed, and not all of its subtests were skipped.
func (r *results) holds(t *test) bool {
	if t.status != passed {
		return false
	}
	below, ran := 0, 0
	for _, sub := range r.tests {
		if sub.pkg != t.pkg || !strings.HasPrefix(sub.name, t.name+"/") {
			continue
		}
		below++
		if sub.status != skipped {
			ran++
		}
	}
	return below == 0 || ran > 0
}

// brokenPackages lists the packages that failed without a failed test: they did not build, their TestMain
// failed, or the run ended early.
func (r *results) brokenPackages(failing map[string]bool) []string {
	var broken []string
	for _, p := range r.packages {
		switch {
		case failing[p.path], p.timeout.after != "":
		case p.status == running:
			broken = append(broken, "package "+Short(p.path)+" did not finish")
		case p.status == failed:
			broken = append(broken, "package "+Short(p.path))
		}
	}
	slices.Sort(broken)
	return broken
}

// lacking returns a problem for each of the packages that has no result.
func (r *results) lacking(packages []string) (problems []string) {
	for _, path := range packages {
		if p := r.packages[path]; p == nil || p.status == running {
			problems = append(problems, "package "+Short(path)+" has no result")
		}
	}
	return problems
}
