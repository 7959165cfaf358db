// Package drivertest is the conformance suite for drivers. It checks the behaviour that Berth needs from each.
//
// A driver's own test calls [Run] with a [Harness]. The suite assumes nothing about speed or about the
// form of IDs. A listing or a phase may be out of date for a while: the suite repeats a check until
// Harness.Patience is over. It makes instances only for new sandboxes and tenants, so that it can run at a
// provider that has other instances, and several times at once. The parts for stopping, freezing, running
// commands and files run if [driver.As] returns the ability. A driver with an ability must pass its part.
//
// Commands need sh, cat and sleep in the instance.
package drivertest

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// Harness gives the suite access to a driver.
type Harness struct {
	// New opens a driver. It is called for each sub-test and cleans up with t.Cleanup. The suite
	// destroys its own instances before.
	New func(t *testing.T) driver.Driver

	// Reopen opens a second driver for the same instances, like another process. Nil means that the instances end
	// with the driver value.
	Reopen func(t *testing.T, d driver.Driver) driver.Driver

	// Patience is the maximum time of one call, and of the wait until its effect is visible. Zero means 10 s.
	Patience time.Duration

	// Serve starts a program in an instance and returns its port. It answers each request with the text, a space, and the
	// path, until the test ends. A driver that exposes ports needs it.
	Serve func(t *testing.T, d driver.Driver, id driver.ID, text string) (port uint16)

	// Slow keeps the number of instances small, for drivers whose instances cost seconds or money.
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
	_, exposes := driver.As[driver.Exposer](d)
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
	if exposes {
		runExpose(run)
	}
	if exposes && stops {
		run("ExposeStopped", testExposeStopped)
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
