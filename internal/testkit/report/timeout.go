package report

import (
	"fmt"
	"slices"
	"strings"
)

// timeout is the testing package's panic about a package that ran too long.
type timeout struct {
	after   string   // how long it was allowed to run
	running []string // the tests that ran, each with its time: "TestX (2m3s)"
	reading bool     // the next lines list them
}

const timeoutWords = "panic: test timed out after "

// note looks for the panic in a package's output, whichever test it was attributed to.
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

// covers reports whether the test, or one below it, ran when the time was over.
func (t *timeout) covers(test string) bool {
	return slices.ContainsFunc(t.running, func(entry string) bool {
		name, _, _ := strings.Cut(entry, " ")
		return name == test || strings.HasPrefix(name, test+"/")
	})
}

// leaves are the running tests without those that waited for a subtest.
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

// cutOff names the packages in which tests did not get to run: they timed out, did not build or ended
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
