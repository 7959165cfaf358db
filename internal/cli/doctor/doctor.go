// Package doctor looks at everything a Berth server needs on this machine and says what is wrong
// and what to do about it.
//
// [Run] makes all checks, with a server running or without one. It changes nothing: it makes no
// directory and no database, and what it writes to see whether it can, it removes.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
)

// The words a check ends with.
const (
	OK      = "ok"
	Warning = "warning" // works, but not as it should
	Failed  = "failed"  // a server would not start, or not do its work
)

// Subject is what is looked at.
type Subject struct {
	// Config is what the server would be told; nil when ConfigErr says why it cannot be.
	Config    *config.Loaded
	ConfigErr error
	// Build says which Berth this is.
	Build string
	// Drivers are the kinds of driver in this binary.
	Drivers []string
	// Probe tries what this machine's own engine needs; nil: there is none.
	Probe func(ctx context.Context, cfg *config.Loaded) []api.Check
}

// patience bounds each check: a machine that is ill must not make its doctor hang.
const patience = 10 * time.Second

// Run makes all checks, one after the other. Without a configuration it makes those that need none.
func Run(ctx context.Context, s Subject) []api.Check {
	checks := []check{
		{"version", version}, {"kernel", kernel}, {"clock", clock},
		{"namespaces", namespaces}, {"cgroups", cgroups}, {"configuration", configuration},
	}
	if s.Config != nil {
		checks = append(checks, check{"data_dir", dataDir}, check{"disk", disk}, check{"secrets", secrets},
			check{"lock", lock}, check{"port", port}, check{"database", database},
			check{"object_store", objectStore}, check{"message_store", messageStore}, check{"drivers", drivers})
	}
	var found []api.Check
	for _, c := range checks {
		found = append(found, c.run(ctx, s))
	}
	if s.Config != nil {
		found = append(found, engines(ctx, s)...)
	}
	return found
}

// Worst is the worst word among the checks.
func Worst(checks []api.Check) string {
	worst := OK
	for _, c := range checks {
		if c.Status == Failed || c.Status == Warning && worst == OK {
			worst = c.Status
		}
	}
	return worst
}

// check is one thing to look at.
type check struct {
	name string
	look func(context.Context, Subject) finding
}

// finding is what a look has found.
type finding struct{ status, detail, fix string }

func (c check) run(ctx context.Context, s Subject) api.Check {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f := c.look(ctx, s)
	return api.Check{Name: c.name, Status: f.status, Detail: f.detail, Fix: f.fix}
}

func fine(format string, args ...any) finding {
	return finding{status: OK, detail: fmt.Sprintf(format, args...)}
}

func warn(fix, format string, args ...any) finding {
	return finding{Warning, fmt.Sprintf(format, args...), fix}
}

func fail(fix, format string, args ...any) finding {
	return finding{Failed, fmt.Sprintf(format, args...), fix}
}
