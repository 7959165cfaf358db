package fake_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
)

const (
	sharedDirEnv = "BERTH_FAKE_TEST_DIR"  // what a test in another process shall work on
	roleEnv      = "BERTH_FAKE_TEST_ROLE" // and what it shall do there
)

// TestMain lets the test binary play a part in a test of many processes.
func TestMain(m *testing.M) {
	dir := os.Getenv(sharedDirEnv)
	switch os.Getenv(roleEnv) {
	case "race":
		os.Exit(exit(createKeys(dir, 250)))
	case "until-killed":
		os.Exit(exit(createKeys(dir, 1<<30)))
	}
	os.Exit(m.Run())
}

func exit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// createKeys creates the first n of the test's keys, those that others did not.
func createKeys(dir string, n int) error {
	d, err := fake.New(dir)
	if err != nil {
		return err
	}
	for i := range n {
		_, err := d.Create(context.Background(), spec("race-"+strconv.Itoa(i), 1))
		if _, exists := errors.AsType[*driver.ExistsError](err); err != nil && !exists {
			return err
		}
	}
	return nil
}

// again is a process of this test binary.
func again(t *testing.T, dir, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), sharedDirEnv+"="+dir, roleEnv+"="+role)
	return cmd
}

func TestSuiteInFourProcesses(t *testing.T) {
	dir := t.TempDir()
	results := make(chan error)
	for range 4 {
		cmd := again(t, dir, "", "-test.run=^TestSuite$")
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
			results <- err
		}()
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	live, err := open(t, dir).Live()
	if err != nil || len(live) != 0 {
		t.Fatalf("the suites left %d instances behind, %v", len(live), err)
	}
}

func TestEightProcessesMakeEachKeyOnce(t *testing.T) {
	dir := t.TempDir()
	begun := time.Now()
	var racers []*exec.Cmd
	for range 8 {
		cmd := again(t, dir, "race")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		racers = append(racers, cmd)
	}
	for _, cmd := range racers {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("8 processes, 250 keys: %v", time.Since(begun))
	calls := log(t, open(t, dir))
	if len(calls) != 8*250 {
		t.Errorf("%d calls are logged, not %d", len(calls), 8*250)
	}
	if n := fake.Effects(calls, fake.Create); n != 250 {
		t.Errorf("%d creates took effect, not 250", n)
	}
	if n := countOutcome(calls, "exists"); n != 7*250 {
		t.Errorf("%d creates met another's instance, not %d", n, 7*250)
	}
}

func countOutcome(calls []fake.Call, outcome string) (n int) {
	for _, c := range calls {
		if c.Outcome == outcome {
			n++
		}
	}
	return n
}

// Whenever a process is killed, the log knows exactly what it made.
func TestLogCountsCreatesOfKilledProcess(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	for round := range 5 {
		cmd := again(t, dir, "until-killed")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 60*time.Second, func() error {
			if n := len(live(t, d)); n < (round+1)*40 {
				return fmt.Errorf("%d instances so far", n)
			}
			return nil
		})
		cmd.Process.Kill()
		cmd.Wait()
	}
	calls := log(t, d)
	if made, n := fake.Effects(calls, fake.Create), len(live(t, d)); made != n {
		t.Errorf("the log counts %d creates, and there are %d instances", made, n)
	}
	for _, st := range live(t, d) {
		if st.Key.Sandbox == "" {
			t.Errorf("a killed process left the entry %q without a key", st.ID)
		}
	}
}
