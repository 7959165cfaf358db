package process

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

// copyOutput prints the output of a command byte by byte. At a terminal, unsafe characters are escaped.
func (a *app) copyOutput(w *watch) (api.ExecExit, error) {
	stdout, closeOut := ui.SafeWriter(a.Out)
	stderr, closeErr := ui.SafeWriter(a.Err)
	end, err := w.Copy(stdout, stderr)
	return end, errors.Join(err, closeOut(), closeErr())
}

// collectOutput prints the whole output as one JSON document after the command has ended.
func (a *app) collectOutput(w *watch) (api.ExecExit, error) {
	var stdout, stderr ui.Head
	end, err := w.Copy(&stdout, &stderr)
	if err != nil {
		return end, err
	}
	result := api.ExecResult{ExecExit: end, ExecID: w.id, StdoutTruncated: stdout.Truncated, StderrTruncated: stderr.Truncated}
	result.SetOutput(stdout.Bytes(), stderr.Bytes())
	return end, ui.WriteJSON(a.Out, result)
}

// exit returns the command's exit code as an error. It prints a message for outcomes that the command cannot report
// itself: it was not found, could not be run, took too long, or was lost.
func (a *app) exit(ref string, want api.Exec, end api.ExecExit) error {
	switch {
	case end.Lost:
		return ui.Hint(fmt.Errorf("%s stopped before the command had ended; how it would have ended is not known", ui.Clean(ref)),
			"'berth history "+ref+"' says why it stopped.")
	case end.ExitCode == ui.ExitTimeout && want.TimeoutSeconds > 0 && end.Signal != "":
		a.Errorf("stopped after %s (--timeout)", ui.Brief(time.Duration(want.TimeoutSeconds*float64(time.Second))))
	case end.Reason != "":
		a.Errorf("%s", ui.Clean(end.Reason))
	}
	if end.ExitCode == exitNotFound && len(want.Command) == 1 && strings.ContainsAny(want.Command[0], " \t") {
		a.Notef("  hint: No shell takes the words apart. If one should: berth exec %s -- sh -c '%s'", ui.Clean(ref), ui.Clean(want.Command[0]))
	}
	if code := end.ExitCode; code != 0 {
		return ui.ExitCode(code & 0xff)
	}
	return nil
}

const exitNotFound = 127
