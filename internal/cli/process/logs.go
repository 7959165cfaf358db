package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// logFlags holds the flags and arguments of logs.
type logFlags struct {
	ref, id string
	follow  bool
	after   int64
	tail    int           // -1: all lines
	since   time.Duration // only commands that were started in this time; zero: a single command
}

func (a *app) logs() *cobra.Command {
	var want logFlags
	cmd := &cobra.Command{
		Use:   "logs ID|NAME [EXEC_ID]",
		Short: "Show the output of a command",
		Long: `Show the output of a command in a sandbox: the one with the given id, or the one that was started last.
'berth ps' lists them. A stopped sandbox is not started.

Output goes to stdout and stderr as the command wrote it; at a terminal, escape sequences other than
colours are printed as text. With --json each piece of output is one line.`,
		Example:           "  berth logs scratch --tail 20 -f\n  berth logs scratch --since 10m\n  berth logs scratch 2f1f7a10 --after 4096 --json",
		Args:              ui.Args(1, 2, "the ID or NAME of one sandbox and at most one EXEC_ID"),
		ValidArgsFunction: a.completeExecs,
		PreRunE:           a.ResolveSandboxes(1),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			want.ref = args[0]
			if len(args) > 1 {
				want.id = args[1]
			}
			return a.runLogs(ctx, want)
		}),
	}
	flags := a.Online(cmd).Flags()
	flags.BoolVarP(&want.follow, "follow", "f", false, "go on until the command ends")
	flags.Int64Var(&want.after, "after", 0, "begin behind the first `N` bytes (default: with the oldest that is kept)")
	flags.IntVar(&want.tail, "tail", -1, "print only the last `N` lines of what was written before")
	flags.DurationVar(&want.since, "since", 0, "print the output of every command that was started in the last `TIME`, such as 10m")
	for _, name := range []string{"after", "tail", "since"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

func (a *app) runLogs(ctx context.Context, want logFlags) error {
	if want.after < 0 {
		return ui.Usage("--after must be an integer ≥ 0", "Each line of --json holds the next one to give.")
	}
	if want.since < 0 || want.since > 0 && (want.id != "" || want.after > 0 || want.follow) {
		return ui.Usage("--since names commands by their time: it takes no EXEC_ID, --after or --follow", "'berth ps "+want.ref+"' lists the commands.")
	}
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if want.since > 0 {
		return c.NotFoundHint(ctx, want.ref, a.logsSince(ctx, c, want))
	}
	return c.NotFoundHint(ctx, want.ref, a.readLogs(ctx, c, want))
}

// logsSince prints the output of all commands that were started in the time want.since, oldest first.
func (a *app) logsSince(ctx context.Context, c *remote.Connection, want logFlags) error {
	var found []api.ExecStatus
	for e, err := range execs(ctx, c, want.ref) {
		if err != nil {
			return err
		}
		if a.Now().Sub(e.StartedAt) > want.since {
			break // the newest come first
		}
		found = append(found, e)
	}
	if len(found) == 0 {
		a.Notef("Nothing was started in it in the last %s.", ui.Span(want.since))
	}
	for _, e := range slices.Backward(found) {
		a.Notef("%s", a.Err.Paint(ui.Bold, fmt.Sprintf("── %s  %s  %s", ui.Clean(e.ExecID), a.Time(e.StartedAt), ui.Clean(ui.Truncate(commandOf(e), maxCommand)))))
		want.id = e.ExecID
		if err := a.readLogs(ctx, c, want); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) readLogs(ctx context.Context, c *remote.Connection, want logFlags) error {
	status, err := pick(ctx, c, want)
	if err != nil {
		return err
	}
	if want.after >= status.End && !status.Running {
		return nil
	}
	patient, err := a.Connect(client.WithAttempts(ReconnectAttempts))
	if err != nil {
		return err
	}
	stream, err := patient.Sandboxes.Attach(ctx, want.ref, status.ExecID, want.after)
	if err != nil {
		return trimmedHint(want, status, err)
	}
	defer stream.Close()
	until := int64(-1) // -1: the end of the command
	if !want.follow && status.Running {
		until = status.End
	}
	return a.printEvents(stream, want.tail, status.End, max(want.after, status.First), until)
}

// pick returns the command with the given id, or the newest one.
func pick(ctx context.Context, c *remote.Connection, want logFlags) (api.ExecStatus, error) {
	if want.id != "" {
		id, err := c.WholeID(ctx, want.id, execIDs(want.ref))
		if err != nil {
			return api.ExecStatus{}, err
		}
		status, err := c.Sandboxes.ExecStatus(ctx, want.ref, id)
		return status, noSuchExec(want.ref, err)
	}
	for e, err := range execs(ctx, c, want.ref) {
		return e, err
	}
	return api.ExecStatus{}, ui.Hint(fmt.Errorf("nothing was started in %s since its last start", ui.Clean(want.ref)),
		"'berth exec "+want.ref+" -- uname -a' starts something; give an EXEC_ID for what was written before.")
}

// noSuchExec adds a hint to the error that a command was not found.
func noSuchExec(ref string, err error) error {
	var p *api.Problem
	if errors.As(err, &p) && p.Code == api.CodeNoSuchExec {
		return ui.Hint(err, "'berth ps "+ref+"' lists what was started in it.")
	}
	return err
}

// trimmedHint adds the first kept offset to the error that older output was removed.
func trimmedHint(want logFlags, status api.ExecStatus, err error) error {
	var p *api.Problem
	if errors.As(err, &p) && p.Code == api.CodeOutputTrimmed {
		return ui.Hint(err, fmt.Sprintf("The output kept begins at %d: omit --after.", status.First))
	}
	return err
}

// printEvents prints the output from one offset to another; until < 0 means to the end of the command. Of the output
// before the offset old it prints only the last tail lines; tail < 0 means all of it.
func (a *app) printEvents(stream *client.ExecStream, tail int, old, from, until int64) error {
	if until >= 0 && from >= until {
		return nil
	}
	to, done := a.eventPrinter()
	if tail >= 0 {
		keep := &lastLines{most: tail, old: old, to: to}
		to = keep.add
		flushed := done
		done = func() error { return errors.Join(keep.flush(), flushed()) }
	}
	for event, err := range stream.Events() {
		if err == nil {
			err = to(event)
		}
		if err != nil {
			return errors.Join(err, done())
		}
		if until >= 0 && event.Next >= until {
			break
		}
	}
	return done()
}

// eventPrinter returns a function that prints an event: as a line of JSON, or as output to stdout or stderr.
func (a *app) eventPrinter() (to func(api.ExecEvent) error, done func() error) {
	if a.JSON {
		return func(e api.ExecEvent) error {
			data, err := json.Marshal(e)
			if err == nil {
				_, err = io.WriteString(a.Out, ui.EscapeJSON(string(data))+"\n")
			}
			return err
		}, func() error { return nil }
	}
	stdout, closeOut := ui.SafeWriter(a.Out)
	stderr, closeErr := ui.SafeWriter(a.Err)
	return func(e api.ExecEvent) (err error) {
			switch e.Type {
			case api.EventStdout:
				_, err = stdout.Write(e.Data())
			case api.EventStderr:
				_, err = stderr.Write(e.Data())
			}
			return err
		}, func() error {
			return errors.Join(closeOut(), closeErr())
		}
}

// lastLines collects old output and prints only its last lines. Newer output is printed at once.
type lastLines struct {
	most  int
	old   int64 // offset of the end of the old output
	to    func(api.ExecEvent) error
	lines []api.ExecEvent // each is a line or the end of a line
	over  bool
}

func (l *lastLines) add(e api.ExecEvent) error {
	if l.over {
		return l.to(e)
	}
	if e.Type == api.EventStdout || e.Type == api.EventStderr {
		for line := range bytes.Lines(e.Data()) {
			part := api.ExecEvent{Type: e.Type, Next: e.Next}
			part.SetData(line)
			l.lines = append(l.lines, part)
		}
		l.trim()
	}
	if e.Next >= l.old || e.Type == api.EventExit {
		return l.flush()
	}
	return nil
}

// trim removes all parts before the last lines. A line may consist of several parts.
func (l *lastLines) trim() {
	n := 0
	for i := len(l.lines) - 1; i >= 0; i-- {
		if i == len(l.lines)-1 || bytes.HasSuffix(l.lines[i].Data(), []byte("\n")) {
			if n++; n > l.most {
				l.lines = slices.Clone(l.lines[i+1:])
				return
			}
		}
	}
}

func (l *lastLines) flush() error {
	l.over = true
	for _, part := range l.lines {
		if err := l.to(part); err != nil {
			return err
		}
	}
	l.lines = nil
	return nil
}
