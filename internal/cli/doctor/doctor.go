// Package doctor checks all requirements of a Berth server on this machine and reports problems with their remedies.
//
// [Run] makes all checks, with or without a running server. It changes nothing: it creates no directory and no
// database, and it removes the files that it writes to test permissions.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
)

// The results of a check.
const (
	OK      = "ok"
	Warning = "warning" // the server works, but with a limitation
	Failed  = "failed"  // the server would not start or not work
)

// Subject describes the server and machine to check.
type Subject struct {
	// Config holds the server's settings. It is nil if ConfigErr is set.
	Config    *config.Loaded
	ConfigErr error
	// Server is the address of the server that commands use (BERTH_SERVER, --server); empty: the default address.
	Server string
	// Build is the version of this program.
	Build string
	// Drivers are the kinds of driver in this binary.
	Drivers []string
	// Probe tests the needs of the local driver and the object store. It may be nil.
	Probe func(ctx context.Context, cfg *config.Loaded) []api.Check
}

// checkTimeout is the time limit of each check: a broken machine must not block the doctor.
const checkTimeout = 10 * time.Second

// Run makes all checks, one after the other. Without a configuration it makes only those that need none.
func Run(ctx context.Context, s Subject) []api.Check {
	checks := []check{
		{"version", version}, {"kernel", kernel}, {"clock", clock},
		{"namespaces", namespaces}, {"cgroups", cgroups}, {"configuration", configuration},
	}
	if s.Server != "" {
		checks = append(checks, check{"server", server})
	}
	if s.Config != nil {
		checks = append(checks, check{"data_dir", dataDir}, check{"disk", disk}, check{"secrets", secrets},
			check{"lock", lock}, check{"port", port}, check{"database", database}, check{"secret", rootSecret},
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

// Worst returns the worst result of the checks.
func Worst(checks []api.Check) string {
	worst := OK
	for _, c := range checks {
		if c.Status == Failed || c.Status == Warning && worst == OK {
			worst = c.Status
		}
	}
	return worst
}

// check is one check and its name in the report.
type check struct {
	name string
	look func(context.Context, Subject) finding
}

// finding is the result of one check.
type finding struct{ status, detail, fix string }

func (c check) run(ctx context.Context, s Subject) api.Check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
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
