package drivertest_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/drivertest"
)

// brokenEnv tells another process of this test binary which breakage to run the suite on.
const brokenEnv = "BERTH_DRIVERTEST_BREAKAGE"

// patienceEnv tells it how patient to be.
const patienceEnv = "BERTH_DRIVERTEST_PATIENCE"

const nothingBroken = "nothing"

// The suite fails on every breakage, in the part that is there for it and with the reason for it; and
// there is no part that no breakage fails.
func TestSuiteCatchesBrokenDrivers(t *testing.T) {
	if name := os.Getenv(brokenEnv); name != "" {
		runBroken(t, name)
		return
	}
	whole, err := suiteOn(t, nothingBroken, ".*", 10*time.Second)
	if err != nil {
		t.Fatalf("the suite fails on a driver that is not broken: %v\n%s", err, whole)
	}
	caught := map[string]bool{}
	for _, b := range breakages {
		for part := range strings.FieldsSeq(b.parts) {
			caught[part] = true
		}
	}
	for _, m := range regexp.MustCompile(`--- PASS: \w+/(\w+)`).FindAllStringSubmatch(whole, -1) {
		if !caught[m[1]] {
			t.Errorf("no breakage is caught by %s", m[1])
		}
	}
	t.Run("each", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(breakages)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				mustCatch(t, name, breakages[name])
			})
		}
	})
}

func runBroken(t *testing.T, name string) {
	bend := func(p *procs) driver.Driver {
		b := newBent(p)
		if name != nothingBroken {
			breakages[name].bend(b)
		}
		return b
	}
	h := harness(bend)
	patience, err := time.ParseDuration(os.Getenv(patienceEnv))
	if err != nil {
		t.Fatal(err)
	}
	h.Patience = patience
	drivertest.Run(t, h)
}

// mustCatch takes more patience where the first try failed for lack of it, on a busy machine.
func mustCatch(t *testing.T, name string, b breakage) {
	for part := range strings.FieldsSeq(b.parts) {
		problem := fails(t, name, part, b.says, 300*time.Millisecond)
		if problem != nil {
			problem = fails(t, name, part, b.says, 5*time.Second)
		}
		if problem != nil {
			t.Error(problem)
		}
	}
}

// fails is an error unless the part fails on the breakage and says so.
func fails(t *testing.T, name, part, says string, patience time.Duration) error {
	out, err := suiteOn(t, name, "^"+part+"$", patience)
	if err == nil || !strings.Contains(out, "--- FAIL: TestSuiteCatchesBrokenDrivers/"+part+" ") {
		return fmt.Errorf("%s does not fail: %v\n%s", part, err, out)
	}
	if !strings.Contains(out, says) {
		return fmt.Errorf("%s does not say %q:\n%s", part, says, out)
	}
	return nil
}

// suiteOn runs some parts of the suite on a breakage, in a process of its own.
func suiteOn(t *testing.T, name, parts string, patience time.Duration) (string, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestSuiteCatchesBrokenDrivers$/"+parts)
	cmd.Env = append(os.Environ(), brokenEnv+"="+name, patienceEnv+"="+patience.String())
	out, err := cmd.CombinedOutput()
	return string(out), err
}
