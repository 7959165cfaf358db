package berth

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Command is a command to run in a sandbox.
type Command struct {
	Args []string          // the program and its arguments
	Dir  string            // the working directory, relative to the workspace; empty: the workspace
	Env  map[string]string // variables in addition to the sandbox's and its template's
	User string            // agent or root; empty: the template's user

	Stdin  io.Reader // nil: no input
	Stdout io.Writer // nil: the output is discarded
	Stderr io.Writer // nil: the output is discarded
}

// Shell returns a command that runs one line of shell text.
func Shell(line string) Command { return Command{Args: api.Shell(line)} }

// Exec runs a command in the sandbox and waits for its end. The end of ctx kills the command. A command that fails,
// or that cannot be run (exit codes 126 and 127), is not an error: the result has its exit code. If Stdin, Stdout or
// Stderr returns an error, Exec returns it with the result.
func (s *Sandbox) Exec(ctx context.Context, cmd Command) (api.ExecExit, error) {
	const op = "run command"
	h, record, err := s.handle(ctx)
	if err == nil && record.State != sandbox.Running {
		h, _, err = s.runningHandle(ctx)
	}
	if err != nil {
		return api.ExecExit{}, wrap(op, err)
	}
	defer h.HoldLate(ctx, "exec")()
	conn, err := h.GuestToRun(ctx)
	if err != nil {
		return api.ExecExit{}, wrap(op, err)
	}
	defer conn.Close()
	exit, err := cmd.run(ctx, conn, h.Command)
	return exit, wrap(op, err)
}

// run runs the command with the helper at conn. prepare adds the sandbox's environment to the command.
func (c Command) run(ctx context.Context, conn guest.Conn, prepare func(context.Context, guest.Cmd) (guest.Cmd, error)) (api.ExecExit, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return api.ExecExit{}, fault.Errorf("", api.CodeInvalidRequest, "the command has no program")
	}
	if err := sandbox.CheckEnv(c.Env); err != nil {
		return api.ExecExit{}, err
	}
	cmd := guest.Cmd{Argv: c.Args, Dir: c.Dir, User: c.User}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		cmd.Env = append(cmd.Env, name+"="+c.Env[name])
	}
	cmd, err := prepare(ctx, cmd)
	if err != nil {
		return api.ExecExit{}, err
	}
	start, failed := time.Now(), new(ioFailure)
	exit, err := conn.Run(ctx, cmd, guest.Stdio{
		Stdin: failed.reader(c.Stdin), Stdout: failed.writer(c.Stdout), Stderr: failed.writer(c.Stderr),
	})
	if err != nil {
		return api.ExecExit{}, engine.WrapGuest("", err)
	}
	shown := engine.ShowExit(exit, time.Time{})
	shown.DurationMS = time.Since(start).Milliseconds()
	return shown, failed.err()
}

// ioFailure records the first error of the program's own readers and writers.
type ioFailure struct {
	mu    sync.Mutex
	first error
}

func (f *ioFailure) set(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil {
		f.first = &fault.Error{Code: api.CodeInvalidRequest, Err: fmt.Errorf("%s: %w", what, err), Hint: "The reader or writer that the program passed has failed."}
	}
}

func (f *ioFailure) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}

func (f *ioFailure) reader(r io.Reader) io.Reader {
	if r == nil {
		return nil
	}
	return watchedReader{r, f}
}

func (f *ioFailure) writer(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return watchedWriter{w, f}
}

type watchedReader struct {
	io.Reader
	failed *ioFailure
}

func (r watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.failed.set("read input", err)
	}
	return n, err
}

// watchedWriter must stay comparable: the helper's client compares Stdout with Stderr to see whether both are one
// writer.
type watchedWriter struct {
	io.Writer
	failed *ioFailure
}

func (w watchedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.failed.set("write output", err)
	}
	return n, err
}
