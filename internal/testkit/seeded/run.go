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

// verdict holds the results of one run of "go test", by test function.
type verdict struct {
	passed, failed, skipped []string
	output                  string
}

// goTest runs a test in the module at root. The overlay may be empty.
func goTest(root, overlay string, test Test) verdict {
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=20m", "-run", test.Pattern, test.Package)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "PWD="+root)
	if overlay != "" {
		// GOFLAGS and not an argument, so that a test that builds the program itself builds it with the bug too.
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
	out, _ := cmd.Output() // if this fails, the build uses the defaults
	return strings.TrimSpace(string(out))
}

// read collects the results from the events of one run. Tests that did not finish count as failed.
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

// noticed returns "" if the test failed with the bug in, and otherwise the reason why the run does not count.
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

// sound returns "" if the test passed without the bug, and otherwise the reason why the run does not count.
func (v verdict) sound() string {
	if len(v.passed) > 0 && len(v.failed) == 0 && len(v.skipped) == 0 {
		return ""
	}
	return "the test must pass without the bug, and did not\n" + cmp.Or(v.output, "no test ran")
}
