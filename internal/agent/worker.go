package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// Worker is a Runtime that runs each turn as one process. The process is a shell that runs the agent (see wrapper).
// The shell adds notes to the output, for example that the turn was cancelled. All other lines are
// passed to a Reader.
type Worker struct {
	Kind string
	// Job returns the process to run for a turn.
	Job func(t Turn) Job
	// Read returns a Reader for the agent's lines. It continues from the state of an earlier Reader of the same turn;
	// nil: from the beginning.
	Read func(t Turn, state json.RawMessage) (Reader, error)
	// Plain is true for agents that may print plain text: their lines keep their white space, and an exit with code 0
	// completes a turn whose end the agent did not report.
	Plain bool
	// Install returns the command that installs the agent of a turn, for error messages; nil: there is none.
	Install func(t Turn) string
	// Grace is the time that a cancelled turn has to end before it is killed; zero: five seconds.
	Grace time.Duration
}

// Job describes the process of a turn.
type Job struct {
	// Prelude is a POSIX shell script that runs before the command. It may change the command "$@" and the path
	// $input, or set feed to the name of a function whose output is the command's input in place of that file. It may
	// write a note with "tell NOTE" and exit. The file $aside exists if Aside is not empty.
	Prelude string
	Argv    []string
	Env     []string
	Input   string // the standard input of the command; stored in a file until the turn has ended
	Aside   []byte // a second input that must not be among the arguments; stored like Input

	// Inside means that Argv is the command of a part of Berth that runs in the sandbox without the shell, and that gets
	// the turn's mark and the path of the input file as its last arguments. It writes notes itself.
	Inside bool
}

// Name returns the name of the runtime in templates.
func (w *Worker) Name() string { return w.Kind }

// wrapper runs the command of a turn: $1 is the value of BERTH_TURN in the processes of the turn, $2 is the input
// file. The wrapper outlives the command, so that it can note that the turn was cancelled. It removes the input as soon
// as it is open, and the aside file at the end, so that they do not stay if no server watches.
const wrapper = `mark=$1 input=$2 aside=$2` + aside + `
trap 'rm -f "$aside" "${aside%%` + aside + `}"' EXIT
shift 2
tell() { printf '\n{"berth":"%%s"}\n' "$1"; }
cancelled= feed=
trap 'cancelled=1' INT
%s
if [ -n "$feed" ]; then
	"$feed" | BERTH_TURN=$mark "$@"
else
	exec 3<"$input" || exit 1
	rm -f "$input"
	BERTH_TURN=$mark "$@" <&3 3<&-
fi
code=$?
[ -z "$cancelled" ] || tell cancelled
exit $code
`

// Notes that the wrapper writes.
const (
	noteCancelled    = "cancelled"
	noteNoSession    = "no_session"
	noteNotInstalled = "not_installed"
	noteUnreached    = "unreached" // the agent's server went away before the prompt reached it
)

// keptOutput is the number of bytes of a turn's output that the sandbox keeps for a server that was away.
const keptOutput = 64 << 20

// ProcessID returns the id of the turn's process in its sandbox.
func ProcessID(t Turn) string { return fmt.Sprintf("turn-%s-%d", strings.ToLower(t.ID), t.Attempt) }

// aside is the suffix of the file with Job.Aside, next to the input file.
const aside = ".aside"

// inputFile returns the path of the turn's input file in the home directory.
func inputFile(t Turn) string { return inputDir + "/" + ProcessID(t) + ".prompt" }

const inputDir = ".berth/turns"

// Start begins the turn, unless its process exists already.
func (w *Worker) Start(ctx context.Context, h *engine.Handle, t Turn) error {
	conn, err := h.Guest(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	id := ProcessID(t)
	switch _, err := conn.Process(id).Status(ctx); {
	case err == nil:
		return nil
	case !errors.Is(err, guest.ErrNoProcess):
		return problem("start turn", err)
	}
	sweepInputs(ctx, h, conn)
	if t.Attempt > 1 {
		before := t
		before.Attempt--
		dropInput(ctx, h, before)
	}
	job := w.Job(t)
	cmd, err := h.Command(ctx, guest.Cmd{
		Argv: job.command(id, guest.Home+"/"+inputFile(t)),
		Dir:  guest.Workspace, Env: job.Env, Keep: keptOutput, Follow: true, Timeout: time.Duration(t.Seconds) * time.Second,
	})
	if err != nil {
		return err
	}
	if err := putInput(ctx, h, t, job); err != nil {
		return err
	}
	if err := conn.Start(ctx, id, cmd); err != nil && !errors.Is(err, guest.ErrExists) {
		return problem("start turn", err)
	}
	return nil
}

// command returns the command line of the turn's process.
func (j Job) command(mark, input string) []string {
	if j.Inside {
		return append(j.Argv[:len(j.Argv):len(j.Argv)], mark, input)
	}
	return append([]string{"/bin/sh", "-c", fmt.Sprintf(wrapper, j.Prelude), "turn", mark, input}, j.Argv...)
}

func putInput(ctx context.Context, h *engine.Handle, t Turn, job Job) error {
	home, err := h.Files(ctx, files.HomeDir)
	if err != nil {
		return err
	}
	defer home.Close()
	private := files.WriteOptions{Perm: 0o600, Lazy: true}
	if len(job.Aside) > 0 {
		if _, _, err := home.Write(ctx, inputFile(t)+aside, bytes.NewReader(job.Aside), private); err != nil {
			return err
		}
	}
	_, _, err = home.Write(ctx, inputFile(t), strings.NewReader(job.Input), private)
	return err
}

// dropInput removes the input of a turn that has ended. It ignores errors: the files may be gone or out of reach.
func dropInput(ctx context.Context, h *engine.Handle, t Turn) {
	home, err := h.Files(ctx, files.HomeDir)
	if err != nil {
		return
	}
	defer home.Close()
	_ = home.Remove(ctx, inputFile(t), false)
	_ = home.Remove(ctx, inputFile(t)+aside, false)
}

// inputForm matches the names of input files and of their aside files. Its group is the process id.
var inputForm = regexp.MustCompile(`^(turn-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-[1-9][0-9]*)\.prompt(?:\.aside)?$`)

const (
	// inputAge is the age after which no turn that uses an input file can still be starting.
	inputAge = 10 * time.Minute
	// maxInputs limits the entries of inputDir that one sweep reads.
	maxInputs = 1000
)

// sweepInputs removes the inputs of turns that ended while no server watched. It ignores errors: the next turn tries
// again.
func sweepInputs(ctx context.Context, h *engine.Handle, conn guest.Conn) {
	home, err := h.Files(ctx, files.HomeDir)
	if err != nil {
		return
	}
	defer home.Close()
	if info, err := home.Stat(ctx, inputDir); err != nil || !info.Mode.IsDir() {
		return // the directory does not exist, or a link or file has its name
	}
	entries, err := home.ReadDir(ctx, inputDir, "", maxInputs)
	var old []files.Info
	for _, e := range entries {
		if e.Mode.IsRegular() && inputForm.MatchString(path.Base(e.Path)) && time.Since(e.ModTime) > inputAge {
			old = append(old, e)
		}
	}
	if err != nil || len(old) == 0 {
		return
	}
	processes, err := conn.Processes(ctx)
	if err != nil {
		return
	}
	running := map[string]bool{}
	for _, p := range processes {
		running[p.ID] = p.Exit == nil
	}
	for _, e := range old {
		if !running[inputForm.FindStringSubmatch(path.Base(e.Path))[1]] {
			_ = home.Remove(ctx, e.Path, false)
		}
	}
}

// problem converts an error of the helper to an error with a code of the API.
func problem(op string, err error) error {
	var known *fault.Error
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, guest.ErrDiskFull):
		return fault.Errorf(op, api.CodeDiskFull, "%w", err)
	case errors.Is(err, guest.ErrGone):
		return fault.Errorf(op, api.CodeNotRunning, "%w", err)
	}
	return fault.Errorf(op, api.CodeDriverUnreachable, "%w", err)
}

func (w *Worker) grace() time.Duration { return cmp.Or(w.Grace, 5*time.Second) }
