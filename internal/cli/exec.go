package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

const execHelp = `Run a command in a sandbox and end with its exit code. A stopped sandbox is started first.

The words behind NAME are the program and its arguments, as they are: no shell takes them apart. For
pipes, variables and globs say so: berth exec NAME -- sh -c 'ls *.go | wc -l'. Where the command has
flags of its own, '--' keeps them apart from Berth's.

Output goes to stdout and stderr byte by byte. At a terminal, only text and colours are shown as they
are and every other escape sequence as its characters, because what runs in a sandbox is not trusted;
-t hands the terminal over instead, as ssh does.

Ctrl-C interrupts the command; a second one leaves it alone and running. A lost connection is made
again and nothing of the output is lost.

Exit codes: the command's own; 124 it took longer than --timeout; 125 Berth could not do it; 126 it
cannot be run; 127 it was not found; 130 it was interrupted, or left running.`

// execution is what the flags of exec ask for.
type execution struct {
	api.Exec
	environ
	find                          finder
	ref                           string
	interactive, terminal, detach bool
	timeout                       time.Duration
	keys                          detachKeys
}

func (f *frame) exec() *cobra.Command {
	return f.execIn(itself, &cobra.Command{
		Use:   "exec ID|NAME [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command in a sandbox",
		Long:  execHelp,
		Example: `  berth exec scratch uname -a
  berth exec scratch -w src -e MODE=test --timeout 2m -- go test ./...
  echo hello | berth exec scratch -i -- sh -c 'cat > greeting'
  berth exec scratch -it -- bash
  id=$(berth exec scratch -d -- ./server)`,
		Args:              takes(1, -1, "the ID or NAME of one sandbox and a command"),
		ValidArgsFunction: f.completeSandboxes(1),
	})
}

// finder finds the sandbox that a word on the command line stands for.
type finder func(ctx context.Context, c *connection, word string) (ref string, err error)

// itself is for words that are ids and names of sandboxes.
func itself(_ context.Context, _ *connection, ref string) (string, error) { return ref, nil }

// execIn makes a command run others in the sandbox that its first argument stands for.
func (f *frame) execIn(find finder, cmd *cobra.Command) *cobra.Command {
	want := execution{find: find, keys: defaultDetachKeys}
	cmd.DisableFlagsInUseLine = true
	f.online(cmd)
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags behind the command are the command's
	flags.BoolVarP(&want.interactive, "interactive", "i", false, "send it what comes in on stdin")
	flags.BoolVarP(&want.terminal, "tty", "t", false, "give it a terminal; with -i this one")
	flags.BoolVarP(&want.detach, "detach", "d", false, "start it, print its id, and leave it running")
	f.environFlags(cmd, &want.environ)
	flags.StringVarP(&want.Cwd, "workdir", "w", "", "`DIRECTORY` to run it in (default: /workspace, where relative ones begin)")
	f.userFlag(cmd, &want.User)
	flags.DurationVar(&want.timeout, "timeout", 0, "`TIME` after which it is killed, such as 30s (default: none)")
	flags.StringVar(&want.ExecID, "exec-id", "", "`ID` of your choice to start it under, of a-z, 0-9 and '-': it is started once")
	want.keys.flag(cmd)
	offer(cmd, "timeout", []string{"30s", "5m", "1h"})
	offer(cmd, "exec-id", []string{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		command, err := split(cmd, args)
		if err != nil {
			return asHelp(cmd, err)
		}
		want.ref, want.Command = args[0], command
		return f.runExec(cmd.Context(), cmd, want)
	}
	return cmd
}

// split finds the command behind the sandbox's name, and the flags between them.
func split(cmd *cobra.Command, args []string) ([]string, error) {
	flags := cmd.Flags()
	if err := flags.Parse(args[1:]); err != nil {
		return nil, err
	}
	switch {
	case flags.Changed("help"):
		return nil, pflag.ErrHelp
	case flags.NArg() == 0:
		return nil, &usageError{fmt.Sprintf("%s needs a command to run in %s", cmd.CommandPath(), args[0]),
			fmt.Sprintf("'%[1]s %[2]s -- uname -a' runs one, and '%[1]s %[2]s -it -- sh' a shell.", cmd.CommandPath(), args[0])}
	}
	return flags.Args(), nil
}

// asHelp shows help if that was asked for behind the name, and says any other slip as it is.
func asHelp(cmd *cobra.Command, err error) error {
	var usage *usageError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return cmd.Help()
	case errors.As(err, &usage):
		return err
	}
	return usagef(cmd, "%v", err)
}

func (f *frame) runExec(ctx context.Context, cmd *cobra.Command, want execution) (err error) {
	if err := want.check(cmd); err != nil {
		return err
	}
	if want.Env, err = f.environment(want.given, want.file); err != nil {
		return err
	}
	want.TimeoutSeconds = want.timeout.Seconds()
	c, err := f.connect()
	if err != nil {
		return err
	}
	if want.ref, err = want.find(ctx, c, want.ref); err != nil {
		return err
	}
	var end api.ExecExit
	switch {
	case want.detach:
		return c.about(ctx, want.ref, f.startOnly(ctx, c, want))
	case want.terminal:
		end, err = f.session(ctx, c, &session{ref: want.ref, options: client.TerminalOptions{Exec: want.Exec}, input: want.interactive, keys: want.keys})
	case f.json:
		end, err = f.watched(ctx, c, want, f.collectOutput)
	default:
		end, err = f.watched(ctx, c, want, f.copyOutput)
	}
	if err != nil {
		return c.about(ctx, want.ref, err)
	}
	return f.exit(want.ref, want.Exec, end)
}

// check refuses what does not go together.
func (e *execution) check(cmd *cobra.Command) error {
	flags := cmd.Flags()
	switch {
	case e.timeout < 0 || e.timeout == 0 && flags.Changed("timeout"):
		return usagef(cmd, "--timeout takes a time above zero, such as 30s")
	case e.detach && e.interactive:
		return usagef(cmd, "--detach leaves the command alone, so --interactive has nothing to send")
	case e.terminal && !e.detach && flags.Changed("json"):
		return usagef(cmd, "--tty shows a terminal and --json a document; ask for one of them")
	}
	return nil
}

// startOnly starts the command and prints its id.
func (f *frame) startOnly(ctx context.Context, c *connection, want execution) error {
	if want.terminal {
		want.Terminal = f.windowSize()
	}
	stream, err := c.Sandboxes.ExecStream(ctx, want.ref, want.Exec)
	if err != nil {
		return err
	}
	defer stream.Close()
	if f.json {
		return writeJSON(f.out, map[string]string{"exec_id": stream.ExecID})
	}
	id := clean(stream.ExecID)
	if f.out.tty {
		defer f.notef("It runs on its own: 'berth logs -f %s %s' shows what it writes.", clean(want.ref), id)
	}
	_, err = fmt.Fprintln(f.out, id)
	return err
}
