package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// reading is what the flags of logs ask for.
type reading struct {
	ref, id string
	follow  bool
	after   int64
}

func (f *frame) logs() *cobra.Command {
	var want reading
	cmd := &cobra.Command{
		Use:   "logs ID|NAME [EXEC_ID]",
		Short: "Show what a command in a sandbox wrote",
		Long: `Show what a command in a sandbox wrote: the one of the given id, or the one that was started last.
'berth ps' lists them. It works for a stopped sandbox, too, and does not start it.

Output goes to stdout and stderr as the command wrote it; at a terminal, escape sequences other than
colours are shown as their characters. With --json each piece of output is one line.`,
		Example:           "  berth logs scratch\n  berth logs scratch 01jd3k -f\n  berth logs scratch 01jd3k --after 4096 --json",
		Args:              takes(1, 2, "the ID or NAME of one sandbox and at most one EXEC_ID"),
		ValidArgsFunction: f.completeExecs,
		RunE: run(func(ctx context.Context, args []string) error {
			want.ref = args[0]
			if len(args) > 1 {
				want.id = args[1]
			}
			return f.runLogs(ctx, want)
		}),
	}
	flags := f.online(cmd).Flags()
	flags.BoolVarP(&want.follow, "follow", "f", false, "go on until the command ends")
	flags.Int64Var(&want.after, "after", 0, "begin behind the first `N` bytes (default: with the oldest that is kept)")
	_ = cmd.RegisterFlagCompletionFunc("after", cobra.NoFileCompletions)
	return cmd
}

func (f *frame) runLogs(ctx context.Context, want reading) error {
	if want.after < 0 {
		return &usageError{"--after takes a whole number, 0 or more", "Each line of --json holds the next one to give."}
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	return c.about(ctx, want.ref, f.readLogs(ctx, c, want))
}

func (f *frame) readLogs(ctx context.Context, c *connection, want reading) error {
	status, err := pick(ctx, c, want)
	if err != nil {
		return err
	}
	if want.after >= status.End && !status.Running {
		return nil
	}
	patient, err := f.connect(client.WithAttempts(returnAttempts))
	if err != nil {
		return err
	}
	stream, err := patient.Sandboxes.Attach(ctx, want.ref, status.ExecID, want.after)
	if err != nil {
		return trimmed(want, status, err)
	}
	defer stream.Close()
	until := int64(-1) // the command's end
	if !want.follow && status.Running {
		until = status.End
	}
	return f.printEvents(stream, max(want.after, status.First), until)
}

// pick finds the command whose output is wanted.
func pick(ctx context.Context, c *connection, want reading) (api.ExecStatus, error) {
	if want.id != "" {
		status, err := c.Sandboxes.ExecStatus(ctx, want.ref, want.id)
		return status, noSuchExec(want.ref, err)
	}
	for e, err := range execs(ctx, c, want.ref) {
		return e, err
	}
	return api.ExecStatus{}, &hinted{fmt.Errorf("nothing was started in %s since its last start", clean(want.ref)),
		"'berth exec " + want.ref + " -- uname -a' starts something; give an EXEC_ID for what was written before."}
}

// noSuchExec says where to look for a command that is not there.
func noSuchExec(ref string, err error) error {
	var p *api.Problem
	if errors.As(err, &p) && p.Code == api.CodeNoSuchExec {
		return &hinted{err, "'berth ps " + ref + "' lists what was started in it."}
	}
	return err
}

// trimmed says where to go on when the part that was asked for is gone.
func trimmed(want reading, status api.ExecStatus, err error) error {
	var p *api.Problem
	if errors.As(err, &p) && p.Code == api.CodeOutputTrimmed {
		return &hinted{err, fmt.Sprintf("What is kept begins at %d: leave --after out.", status.First)}
	}
	return err
}

// printEvents shows output from one offset to another; until < 0: to the command's end.
func (f *frame) printEvents(stream *client.ExecStream, from, until int64) error {
	if until >= 0 && from >= until {
		return nil
	}
	to, done := f.eventPrinter()
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

// eventPrinter is where events go: as lines of JSON, or each output to its own stream.
func (f *frame) eventPrinter() (to func(api.ExecEvent) error, done func() error) {
	if f.json {
		return func(e api.ExecEvent) error {
			data, err := json.Marshal(e)
			if err == nil {
				_, err = io.WriteString(f.out, inert(string(data))+"\n")
			}
			return err
		}, func() error { return nil }
	}
	stdout, closeOut := shownOn(f.out)
	stderr, closeErr := shownOn(f.err)
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
