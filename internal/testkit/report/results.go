package report

import (
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/testkit"
)

// status is how a test or a package ended; running means that it did not.
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
}

// top is the name of the test function; subtests belong to it.
func (t *test) top() string {
	name, _, _ := strings.Cut(t.name, "/")
	return name
}

// String is the test's name as docs/requirements.md and allowed_skips.txt write it.
func (t *test) String() string { return Short(t.pkg) + "." + t.name }

// pkg is one package's run. Its output is what belongs to no test.
type pkg struct {
	path     string
	status   status
	elapsed  float64
	output   []string
	tests    int
	coverage float64 // in percent; negative if not measured
	timeout  timeout
}

// results is everything a stream of events said.
type results struct {
	tests    map[[2]string]*test
	packages map[string]*pkg
	builds   []string // output of failed builds
}

func newResults() *results {
	return &results{tests: map[[2]string]*test{}, packages: map[string]*pkg{}}
}

// add takes in one event. It returns the test or the package that ended with it, if one did.
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

// worse lets a failure or a skip stand when the same test ran several times.
func worse(old, new status) status {
	order := []status{running, passed, skipped, failed}
	if slices.Index(order, old) > slices.Index(order, new) {
		return old
	}
	return new
}

// sorted returns the tests in a stable order.
func (r *results) sorted() []*test {
	var all []*test
	for _, t := range r.tests {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *test) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// proofs returns the tests that claim the requirement.
func (r *results) proofs(id string) []*test {
	var claim []*test
	for _, t := range r.sorted() {
		if slices.Contains(t.proves, id) {
			claim = append(claim, t)
		}
	}
	return claim
}

// holds reports whether t is a proof: it passed, and not merely because all below it was skipped.
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

// brokenPackages names the packages that failed by themselves, without a failing test: they did not
// build, their TestMain gave up, or the run was cut off.
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
