package report

import (
	"fmt"
	"slices"
	"strings"
)

// timeout describes the panic of the testing package in a test run that exceeded its -timeout.
type timeout struct {
	after   string   // the time limit; empty if the run did not time out
	running []string // the tests that were running, each with its time: "TestX (2m3s)"
	reading bool     // the next lines of the output list running tests
}

const timeoutWords = "panic: test timed out after "

// note reads a line of a package's output and looks for the panic. The line may belong to any test.
func (t *timeout) note(line string) {
	line = strings.TrimRight(line, "\n")
	switch {
	case strings.HasPrefix(line, timeoutWords):
		t.after, t.reading = strings.TrimPrefix(line, timeoutWords), true
	case !t.reading:
	case strings.HasPrefix(line, "\t\t"):
		t.running = append(t.running, strings.TrimSpace(line))
	default:
		t.reading = strings.TrimSpace(line) == "running tests:"
	}
}

// covers reports whether the test or one of its subtests was running at the timeout.
func (t *timeout) covers(test string) bool {
	return slices.ContainsFunc(t.running, func(entry string) bool {
		name, _, _ := strings.Cut(entry, " ")
		return name == test || strings.HasPrefix(name, test+"/")
	})
}

// leaves returns the running tests that were not waiting for a subtest.
func (t *timeout) leaves() (leaves []string) {
	for _, entry := range t.running {
		name, _, _ := strings.Cut(entry, " ")
		if !slices.ContainsFunc(t.running, func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
			leaves = append(leaves, entry)
		}
	}
	return leaves
}

// timeouts describes the packages that timed out.
func (r *results) timeouts() (found []string) {
	for _, p := range r.packages {
		if p.timeout.after == "" {
			continue
		}
		tests := "no test was running"
		if leaves := p.timeout.leaves(); len(leaves) > 0 {
			tests = "running: " + strings.Join(leaves, ", ")
		}
		found = append(found, fmt.Sprintf("package %s timed out after %s; %s", Short(p.path), p.timeout.after, tests))
	}
	slices.Sort(found)
	return found
}

// cutOff returns the packages in which some tests did not run: the package timed out, did not build or ended
// in the middle of a test.
func (r *results) cutOff() map[string]bool {
	cut := map[string]bool{}
	for _, p := range r.packages {
		if p.timeout.after != "" || p.status == running || p.status == failed && p.tests == 0 {
			cut[Short(p.path)] = true
		}
	}
	for _, t := range r.tests {
		if t.status == running {
			cut[Short(t.pkg)] = true
		}
	}
	return cut
}
