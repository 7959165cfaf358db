package report

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var coverageLine = regexp.MustCompile(`coverage: ([0-9.]+)% of statements`)

func parseCoverage(output string) (float64, bool) {
	m := coverageLine.FindStringSubmatch(output)
	if m == nil {
		return 0, false
	}
	percent, err := strconv.ParseFloat(m[1], 64)
	return percent, err == nil
}

// thinCoverage lists the packages whose coverage is below the floor. It ignores commands, which have only a few
// lines, and conformance suites, which run in the packages that they test.
func (r *results) thinCoverage(floor float64) []string {
	var thin []string
	for _, p := range r.packages {
		exempt := strings.Contains(p.path, "/cmd/") || strings.HasSuffix(path.Base(p.path), "test")
		if p.coverage >= 0 && p.coverage < floor && !exempt {
			thin = append(thin, fmt.Sprintf("%s has %.1f %% of its statements covered, want %.0f", Short(p.path), p.coverage, floor))
		}
	}
	slices.Sort(thin)
	return thin
}
