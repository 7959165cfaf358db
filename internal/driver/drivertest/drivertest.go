// Package drivertest is the suite that every driver passes: what Berth relies on, as code.
//
// A driver's own test calls [Run] with a [Harness]. The suite assumes nothing about speed, about the
// form of IDs, or about a listing or a phase being up to date at once: it looks again until the
// harness's patience is over. It makes instances only under sandboxes and tenants of its own, so that
// it may run against a provider that holds other things and beside itself. The parts for stopping,
// freezing, running commands and files run when [driver.As] finds the ability; a driver that has it must pass
// them.
//
// Commands need sh, cat and sleep in the instance.
package drivertest

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// Harness is how the suite gets at a driver.
type Harness struct {
	// New opens a driver. It is called for each sub-test and cleans up by t.Cleanup; the suite
	// itself destroys every instance it made first.
	New func(t *testing.T) driver.Driver

	// Reopen opens a second driver on the same place, as another process would. Nil means that the
	// instances die with the driver value, and that nobody else could see them.
	Reopen func(t *testing.T, d driver.Driver) driver.Driver

	// Patience is how long one call, or the visibility of its effect, may take; 10 s if zero.
	Patience time.Duration

	// Slow keeps the number of instances small, where each costs seconds or money.
	Slow bool
}

// Run runs the whole suite as sub-tests of t.
func Run(t *testing.T, h Harness) {
	if h.Patience == 0 {
		h.Patience = 10 * time.Second
	}
	run := func(name string, test func(*suite)) {
		t.Run(name, func(t *testing.T) { test(newSuite(t, h)) })
	}
	run("Kind", testKind)
	runCreate(run)
	runFind(run)
	runList(run)
	runDestroy(run)
	runContext(run)
	if h.Reopen != nil {
		run("Reopen", testReopen)
	}
	d := h.New(t)
	_, stops := driver.As[driver.Stopper](d)
	_, freezes := driver.As[driver.Freezer](d)
	_, execs := driver.As[driver.Guester](d)
	_, opens := driver.As[driver.Filer](d)
	if stops {
		runStop(run)
	}
	if freezes {
		runFreeze(run)
	}
	if stops && freezes {
		runStopFrozen(run)
	}
	if execs {
		runExec(run)
	}
	if execs && stops {
		runExecStopped(run)
	}
	if execs && freezes {
		run("ExecFrozen", testExecFrozen)
	}
	if execs && opens {
		runFiles(run)
	}
	if execs && opens && stops {
		run("FilesStopped", testFilesStopped)
	}
	if execs && opens && freezes {
		run("FilesFrozen", testFilesFrozen)
	}
}

func testKind(s *suite) {
	kind := s.d.Kind()
	s.check(kindName.MatchString(kind), "Kind is %q, which is not a lower-case word", kind)
	s.check(s.d.Kind() == kind, "Kind changes from call to call")
}
