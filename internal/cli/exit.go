package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
)

// exited ends Berth with the code of a command in a sandbox. Whatever there was to say has been said.
type exited int

func (e exited) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exit ends Berth as the command ended. What the command could not say itself is said for it: that it
// was not found or cannot be run, took too long, or is lost.
func (f *frame) exit(ref string, want api.Exec, end api.ExecExit) error {
	switch {
	case end.Lost:
		return &hinted{fmt.Errorf("%s stopped before the command had ended; how it would have ended is not known", clean(ref)),
			"'berth history " + ref + "' says why it stopped."}
	case end.ExitCode == ExitTimeout && want.TimeoutSeconds > 0 && end.Signal != "":
		f.complain("stopped after %s (--timeout)", brief(time.Duration(want.TimeoutSeconds*float64(time.Second))))
	case end.Reason != "":
		f.complain("%s", clean(end.Reason))
	}
	if end.ExitCode == exitNotFound && len(want.Command) == 1 && strings.ContainsAny(want.Command[0], " \t") {
		f.notef("  hint: No shell takes the words apart. If one should: berth exec %s -- sh -c '%s'", clean(ref), clean(want.Command[0]))
	}
	if code := end.ExitCode; code != 0 {
		return exited(code & 0xff)
	}
	return nil
}

const exitNotFound = 127

// complain says something that went wrong where the exit code is not Berth's.
func (f *frame) complain(format string, args ...any) {
	f.notef("%s %s", f.err.paint(red, "berth:"), fmt.Sprintf(format, args...))
}
