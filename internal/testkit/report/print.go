package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// printer prints results as they come in.
type printer struct {
	out   io.Writer
	shown int // lines of build output already printed
}

// isFrame reports whether the line is a progress line of the testing package, such as "=== RUN TestX".
func isFrame(line string) bool {
	return strings.HasPrefix(strings.TrimSpace(line), "=== ")
}

// testEnded prints the output of a failed test. It then drops the output, except that of skipped tests: their reason is
// needed later.
func (p *printer) testEnded(t *test) {
	if t.status == failed {
		fmt.Fprintf(p.out, "\n✗ %s (%.2fs)\n", t, t.elapsed)
		p.lines(t.output)
	}
	if t.status != skipped {
		t.output = nil
	}
}

func (p *printer) packageEnded(r *results, pk *pkg) {
	p.buildOutput(r)
	name := Short(pk.path)
	switch {
	case pk.status == failed:
		p.lines(pk.output)
		fmt.Fprintf(p.out, "FAIL  %-40s %7.2fs\n", name, pk.elapsed)
	case pk.tests == 0:
		fmt.Fprintf(p.out, "-     %-40s  no tests\n", name)
	default:
		fmt.Fprintf(p.out, "ok    %-40s %7.2fs %5d tests%s\n", name, pk.elapsed, pk.tests, covered(pk))
	}
	pk.output = nil
}

func covered(pk *pkg) string {
	if pk.coverage < 0 {
		return ""
	}
	return fmt.Sprintf("  %5.1f %%", pk.coverage)
}

func (p *printer) buildOutput(r *results) {
	p.lines(r.builds[p.shown:])
	p.shown = len(r.builds)
}

func (p *printer) lines(output []string) {
	for _, line := range output {
		if !isFrame(line) {
			io.WriteString(p.out, line)
		}
	}
}

// slowest prints the test functions that took longest.
func (p *printer) slowest(r *results, count int) {
	var tops []*test
	for _, t := range r.sorted() {
		if t.name == t.top() {
			tops = append(tops, t)
		}
	}
	slices.SortStableFunc(tops, func(a, b *test) int {
		switch {
		case a.elapsed > b.elapsed:
			return -1
		case a.elapsed < b.elapsed:
			return 1
		}
		return 0
	})
	if len(tops) == 0 || count == 0 {
		return
	}
	fmt.Fprintf(p.out, "\nslowest tests\n")
	for _, t := range tops[:min(count, len(tops))] {
		fmt.Fprintf(p.out, "%8.2fs  %s\n", t.elapsed, t)
	}
}

func (p *printer) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(p.out, "\n%s\n", title)
	for _, item := range items {
		fmt.Fprintf(p.out, "  %s\n", item)
	}
}
