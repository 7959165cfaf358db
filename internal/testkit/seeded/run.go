package seeded

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/berthdev/berth/internal/testkit/report"
)

// verdict is what one run of "go test" showed of the test functions its pattern chose.
type verdict struct {
	passed, failed, skipped []string
	output                  string
}

// goTest runs a test in the module at root, with an overlay or without.
func goTest(root, overlay string, test Test) verdict {
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=20m", "-run", test.Pattern, test.Package)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "PWD="+root)
	if overlay != "" {
		// Not an argument: a test that builds the program itself must build it with the bug too.
		cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(goFlags(root)+" -overlay="+overlay))
	}
	out, err := cmd.CombinedOutput()
	v := read(out)
	if err != nil {
		v.output += err.Error() + "\n"
	}
	return v
}

func goFlags(dir string) string {
	cmd := exec.Command("go", "env", "GOFLAGS")
	cmd.Dir = dir
	out, _ := cmd.Output() // without it the build has the defaults
	return strings.TrimSpace(string(out))
}

// read sums up the events of one run; tests that did not finish count as failed if the run did.
func read(out []byte) verdict {
	var v verdict
	started, ended := []string{}, map[string]bool{}
	_ = report.Events(bytes.NewReader(out), func(e report.Event) { // reading memory does not fail
		v.output += e.Output
		if e.Test == "" || strings.Contains(e.Test, "/") {
			return
		}
		switch e.Action {
		case "run":
			started = append(started, e.Test)
		case "pass":
			v.passed = append(v.passed, e.Test)
		case "fail":
			v.failed = append(v.failed, e.Test)
		case "skip":
			v.skipped = append(v.skipped, e.Test)
		}
		ended[e.Test] = ended[e.Test] || e.Action == "pass" || e.Action == "fail" || e.Action == "skip"
	}, func(line string) { v.output += line + "\n" })
	for _, name := range started {
		if !ended[name] {
			v.failed = append(v.failed, name)
		}
	}
	return v
}

// noticed says why a run with the bug does not count, or nothing if the test caught it.
func (v verdict) noticed() string {
	switch {
	case len(v.passed) > 0:
		return fmt.Sprintf("%s passed with the bug in: it proves nothing", strings.Join(v.passed, ", "))
	case len(v.skipped) > 0:
		return fmt.Sprintf("%s was skipped", strings.Join(v.skipped, ", "))
	case len(v.failed) == 0:
		return "no test ran: it did not build, or no test has this name\n" + v.output
	}
	return ""
}

// sound says why a run without the bug does not count, or nothing if the test passed.
func (v verdict) sound() string {
	if len(v.passed) > 0 && len(v.failed) == 0 && len(v.skipped) == 0 {
		return ""
	}
	return "the test must pass without the bug, and did not\n" + cmp.Or(v.output, "no test ran")
}
