//go:build seeded_midline

package agent

// place is where reading goes on: within a line, whose beginning is forgotten. A bug on purpose, which tests
// must find.
func (r *reading) place() int64 { return r.mark + int64(len(r.line)) }
