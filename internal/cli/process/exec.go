// Package process implements the commands that run and watch processes in a sandbox.
package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

type app struct{ *remote.Remote }

// Commands returns the commands of the package.
func Commands(r *remote.Remote) []*cobra.Command {
	a := &app{r}
	return []*cobra.Command{a.run(), a.exec(), a.shell(), a.ps(), a.logs(), a.kill(), a.stats(), a.ports(), a.open(), a.forward()}
}

const execHelp = `Run a command in a sandbox and exit with its exit code. A stopped sandbox is started first.

The words after NAME are the program and its arguments; no shell interprets them. For pipes, variables
and globs start a shell: berth exec NAME -- sh -c 'ls *.go | wc -l'. If the command has flags, put '--'
before it.

Output goes to stdout and stderr unchanged. At a terminal, escape sequences other than colours are
printed as text, because programs in a sandbox are not trusted; -t gives the command the terminal, as
ssh does.

Ctrl-C interrupts the command; a second Ctrl-C leaves it running. After a lost connection the command
reconnects, and no output is lost.

Exit codes: the command's own; 124: it took longer than --timeout; 125: Berth failed; 126: it cannot be
run; 127: it was not found; 130: it was interrupted, or left running.`

// execFlags holds the flags and arguments of exec.
type execFlags struct {
	api.Exec
	remote.EnvFlags
	find                          RefFinder
	ref                           string
	interactive, terminal, detach bool
	timeout                       time.Duration
	keys                          detachKeys
}

func (a *app) exec() *cobra.Command {
	return ExecIn(a.Remote, sandboxRef, &cobra.Command{
		Use:   "exec ID|NAME [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command in a sandbox",
		Long:  execHelp,
		Example: `  berth exec scratch uname -a
  berth exec scratch -w src -e MODE=test --timeout 2m -- go test ./...
  echo hello | berth exec scratch -i -- sh -c 'cat > greeting'
  berth exec scratch -it -- bash
  id=$(berth exec scratch -d -- ./server)`,
		Args:              ui.Args(1, -1, "the ID or NAME of one sandbox and a command"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
	})
}

// RefFinder returns the id or name of the sandbox for an argument of a command.
type RefFinder func(ctx context.Context, c *remote.Connection, word string) (ref string, err error)

// sandboxRef is the RefFinder for arguments that are ids or names of sandboxes.
func sandboxRef(_ context.Context, _ *remote.Connection, ref string) (string, error) { return ref, nil }

// ExecIn makes cmd run a command in the sandbox that find returns for its first argument.
func ExecIn(r *remote.Remote, find RefFinder, cmd *cobra.Command) *cobra.Command {
	a := &app{r}
	want := execFlags{find: find, keys: defaultDetachKeys}
	cmd.DisableFlagsInUseLine = true
	a.Online(cmd)
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after the command belong to the command
	flags.BoolVarP(&want.interactive, "interactive", "i", false, "send stdin to the command")
	flags.BoolVarP(&want.terminal, "tty", "t", false, "give the command a terminal; with -i this one")
	flags.BoolVarP(&want.detach, "detach", "d", false, "start the command, print its id, and leave it running")
	a.EnvFlags(cmd, &want.EnvFlags)
	flags.StringVarP(&want.Cwd, "workdir", "w", "", "`DIRECTORY` to run it in (default: /workspace, where relative ones begin)")
	a.UserFlag(cmd, &want.User)
	flags.DurationVar(&want.timeout, "timeout", 0, "`TIME` after which it is killed, such as 30s (default: none)")
	flags.StringVar(&want.ExecID, "exec-id", "", "`ID` of your choice to start it under, of a-z, 0-9 and '-': it is started once")
	want.keys.flag(cmd)
	ui.Offer(cmd, "timeout", []string{"30s", "5m", "1h"})
	ui.Offer(cmd, "exec-id", []string{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		command, err := split(cmd, args)
		if err != nil {
			return asHelp(cmd, err)
		}
		want.ref, want.Command = args[0], command
		return a.runExec(cmd.Context(), cmd, want)
	}
	return cmd
}

// split parses the flags after the sandbox's name and returns the command after them.
func split(cmd *cobra.Command, args []string) ([]string, error) {
	flags := cmd.Flags()
	if err := flags.Parse(args[1:]); err != nil {
		return nil, err
	}
	switch {
	case flags.Changed("help"):
		return nil, pflag.ErrHelp
	case flags.NArg() == 0:
		return nil, ui.Usage(fmt.Sprintf("%s needs a command to run in %s", cmd.CommandPath(), args[0]),
			fmt.Sprintf("'%[1]s %[2]s -- uname -a' runs one, and '%[1]s %[2]s -it -- sh' a shell.", cmd.CommandPath(), args[0]))
	}
	return flags.Args(), nil
}

// asHelp shows help if err is the flag --help. It turns any other error of a flag into a usage error.
func asHelp(cmd *cobra.Command, err error) error {
	var usage *ui.UsageError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return cmd.Help()
	case errors.As(err, &usage):
		return err
	}
	return ui.Usagef(cmd, "%v", err)
}

func (a *app) runExec(ctx context.Context, cmd *cobra.Command, want execFlags) (err error) {
	if want.timeout < 0 || want.timeout == 0 && cmd.Flags().Changed("timeout") {
		return ui.Usagef(cmd, "--timeout takes a time above zero, such as 30s")
	}
	if err := want.check(cmd); err != nil {
		return err
	}
	if want.Env, err = a.ReadEnv(want.Given, want.File); err != nil {
		return err
	}
	want.TimeoutSeconds = want.timeout.Seconds()
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if want.ref, err = want.find(ctx, c, want.ref); err != nil {
		return err
	}
	return a.execute(ctx, c, want)
}

// execute runs the command and exits with its exit code.
func (a *app) execute(ctx context.Context, c *remote.Connection, want execFlags) (err error) {
	var end api.ExecExit
	switch {
	case want.detach:
		return c.NotFoundHint(ctx, want.ref, a.startOnly(ctx, c, want))
	case want.terminal:
		end, err = a.session(ctx, c, &session{ref: want.ref, options: client.TerminalOptions{Exec: want.Exec}, input: want.interactive, keys: want.keys})
	case a.JSON:
		end, err = a.runWatched(ctx, c, want, a.collectOutput)
	default:
		end, err = a.runWatched(ctx, c, want, a.copyOutput)
	}
	if err != nil {
		return c.NotFoundHint(ctx, want.ref, err)
	}
	return a.exit(want.ref, want.Exec, end)
}

// check refuses flags that contradict each other.
func (e *execFlags) check(cmd *cobra.Command) error {
	switch {
	case e.detach && e.interactive:
		return ui.Usagef(cmd, "--detach leaves the command alone, so --interactive has nothing to send")
	case e.terminal && !e.detach && cmd.Flags().Changed("json"):
		return ui.Usagef(cmd, "--tty shows a terminal and --json a document; ask for one of them")
	}
	return nil
}

// startOnly starts the command and prints its id.
func (a *app) startOnly(ctx context.Context, c *remote.Connection, want execFlags) error {
	if want.terminal {
		want.Terminal = a.WindowSize()
	}
	stream, err := c.Sandboxes.ExecStream(ctx, want.ref, want.Exec)
	if err != nil {
		return err
	}
	defer stream.Close()
	if a.JSON {
		return ui.WriteJSON(a.Out, map[string]string{"exec_id": stream.ExecID})
	}
	id := ui.Clean(stream.ExecID)
	if a.Out.TTY {
		defer a.Notef("It runs on its own: 'berth logs -f %s %s' shows what it writes.", ui.Clean(want.ref), id)
	}
	_, err = fmt.Fprintln(a.Out, id)
	return err
}
