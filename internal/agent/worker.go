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
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Worker is a Runtime whose turns are one process each. The process is a shell that runs the agent and tells,
// in the same output, what only it can know (see wrapper); the agent's own lines are for a Reader.
type Worker struct {
	Kind string
	// Job is what to run for a turn.
	Job func(t Turn) Job
	// Read reads the agent's lines, on from a state of an earlier Reader of the same turn, or nil.
	Read func(t Turn, state json.RawMessage) (Reader, error)
	// Install is the command that installs the agent.
	Install string
	// Grace is how long a turn that was asked to end has for it; zero: five seconds.
	Grace time.Duration
}

// Job is the process of a turn.
type Job struct {
	// Prelude is POSIX shell that runs before the command. It may change "$@", the command, and $input, and it
	// may say "tell NOTE" and exit. The file $aside is there if the job has something aside.
	Prelude string
	Argv    []string
	Env     []string
	Input   string // what the command reads; kept in a file until the turn has ended
	Aside   []byte // what else it needs and nobody should see among its arguments; kept like the input
}

// Name is what templates call it.
func (w *Worker) Name() string { return w.Kind }

// wrapper runs the command of a turn: $1 marks what belongs to the turn, $2 is its input. It outlives the
// command, so that the end of a turn that was cancelled says so to whoever reads it.
const wrapper = `mark=$1 input=$2 aside=$2` + aside + `
shift 2
tell() { printf '\n{"berth":"%%s"}\n' "$1"; }
cancelled=
trap 'cancelled=1' INT
%s
BERTH_TURN=$mark "$@" <"$input"
code=$?
[ -z "$cancelled" ] || tell cancelled
exit $code
`

// What the wrapper tells.
const (
	noteCancelled    = "cancelled"
	noteNoSession    = "no_session"
	noteNotInstalled = "not_installed"
)

// keep is how much of a turn's output stays readable for a server that was away.
const keep = 64 << 20

// ProcessID is the id of a turn's process in its sandbox.
func ProcessID(t Turn) string { return fmt.Sprintf("turn-%s-%d", strings.ToLower(t.ID), t.Attempt) }

// aside is what the name of the file beside the input has behind it.
const aside = ".aside"

// inputFile is where a turn's input is, below the home directory.
func inputFile(t Turn) string { return inputDir + "/" + ProcessID(t) + ".prompt" }

const inputDir = ".berth/turns"

// Start begins the turn, unless it was begun.
func (w *Worker) Start(ctx context.Context, box Box, t Turn) error {
	conn, err := box.Guest(ctx)
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
	sweepInputs(ctx, box, conn)
	job := w.Job(t)
	if err := putInput(ctx, box, t, job); err != nil {
		return err
	}
	cmd := box.Command(guest.Cmd{
		Argv: append([]string{"/bin/sh", "-c", fmt.Sprintf(wrapper, job.Prelude), "turn", id, guest.Home + "/" + inputFile(t)}, job.Argv...),
		Dir:  guest.Workspace, Env: job.Env, Keep: keep, Follow: true, Timeout: time.Duration(t.Seconds) * time.Second,
	})
	if err := conn.Start(ctx, id, cmd); err != nil && !errors.Is(err, guest.ErrExists) {
		return problem("start turn", err)
	}
	return nil
}

func putInput(ctx context.Context, box Box, t Turn, job Job) error {
	home, err := box.Files(ctx, files.HomeDir)
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

// dropInput removes the input of a turn that has ended. That it is gone, or cannot be reached, is no matter.
func dropInput(ctx context.Context, box Box, t Turn) {
	home, err := box.Files(ctx, files.HomeDir)
	if err != nil {
		return
	}
	defer home.Close()
	_ = home.Remove(ctx, inputFile(t), false)
	_ = home.Remove(ctx, inputFile(t)+aside, false)
}

// inputForm is the name of an input, and of what lies aside of one.
var inputForm = regexp.MustCompile(`^(turn-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-[1-9][0-9]*)\.prompt(?:\.aside)?$`)

const (
	// inputAge is how old an input is at least whose turn cannot be about to start any more.
	inputAge = 10 * time.Minute
	// mostInputs is how many are looked at for one turn.
	mostInputs = 1000
)

// sweepInputs removes the inputs that turns left which ended while no server saw it. A failure is no matter: the
// next turn tries again.
func sweepInputs(ctx context.Context, box Box, conn guest.Conn) {
	home, err := box.Files(ctx, files.HomeDir)
	if err != nil {
		return
	}
	defer home.Close()
	if info, err := home.Stat(ctx, inputDir); err != nil || !info.Mode.IsDir() {
		return // none, or a link in its place
	}
	entries, err := home.ReadDir(ctx, inputDir, "", mostInputs)
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

// problem puts a helper's error into the table's words.
func problem(op string, err error) error {
	var known *sandbox.Error
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, guest.ErrDiskFull):
		return sandbox.Errorf(op, api.CodeDiskFull, "%w", err)
	case errors.Is(err, guest.ErrGone):
		return sandbox.Errorf(op, api.CodeNotRunning, "%w", err)
	}
	return sandbox.Errorf(op, api.CodeDriverUnreachable, "%w", err)
}

func (w *Worker) grace() time.Duration { return cmp.Or(w.Grace, 5*time.Second) }
