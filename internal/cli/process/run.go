package process

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// runFlags holds the flags of run.
type runFlags struct {
	remote.CreateFlags
	exec   execFlags
	name   string
	remove bool
}

func (a *app) run() *cobra.Command {
	want := runFlags{exec: execFlags{keys: defaultDetachKeys}}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command in a new sandbox",
		Long: `Create a sandbox, run a command in it and exit with its exit code. The sandbox stays, and its name is
printed on stderr; --rm deletes it when the command has ended, without a save.

Input, terminals, signals and exit codes are those of 'berth exec'. With -t or -it and no command, a
login shell is started.`,
		Example: `  berth run --rm -- uname -a
  berth run --rm -it
  berth run --name scratch -e MODE=test -- python3 -c 'print(1)'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.DisableFlagsInUseLine = true
	flags := a.Online(cmd).Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&want.name, "name", "", "`NAME` of the sandbox (default: none)")
	flags.BoolVar(&want.remove, "rm", false, "delete the sandbox when the command has ended")
	flags.BoolVarP(&want.exec.interactive, "interactive", "i", false, "send stdin to the command")
	flags.BoolVarP(&want.exec.terminal, "tty", "t", false, "give the command a terminal; with -i this one")
	flags.BoolVarP(&want.exec.detach, "detach", "d", false, "start the command, print its id, and leave it running")
	flags.StringVarP(&want.exec.Cwd, "workdir", "w", "", "`DIRECTORY` to run it in (default: /workspace)")
	a.UserFlag(cmd, &want.exec.User)
	a.CreateFlags(cmd, &want.CreateFlags)
	want.exec.keys.flag(cmd)
	ui.Offer(cmd, "name", []string{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		want.exec.Command = args
		if err := want.check(cmd); err != nil {
			return err
		}
		return a.runRun(cmd.Context(), want)
	}
	return cmd
}

// check refuses flags that contradict each other. It sets the command to the login shell if only a terminal is
// requested.
func (w *runFlags) check(cmd *cobra.Command) error {
	if len(w.exec.Command) == 0 && w.exec.terminal {
		w.exec.Command = api.LoginShell()
	}
	switch {
	case len(w.exec.Command) == 0:
		return ui.Usage("berth run needs a command", "'berth run --rm -- uname -a' runs one, and 'berth run --rm -it' a shell.")
	case w.exec.detach && w.remove:
		return ui.Usagef(cmd, "--rm waits for the command to end, and --detach does not")
	}
	return w.exec.check(cmd)
}

func (a *app) runRun(ctx context.Context, want runFlags) (err error) {
	create := api.CreateSandbox{Name: want.name, Template: want.Template, Driver: want.Driver, Profile: want.Profile}
	if create.Env, create.Metadata, err = want.Values(a.Remote); err != nil {
		return err
	}
	c, err := a.Connect()
	if err != nil {
		return err
	}
	var s api.Sandbox
	var made bool
	err = a.Await(ctx, remote.Wait{What: "creating a sandbox", Look: "berth ls", Most: want.Timeout, State: c.StateOf(want.name)}, func(ctx context.Context) error {
		s, made, err = c.Sandboxes.Create(ctx, create)
		return err
	})
	switch {
	case err != nil:
		return c.Explain(err)
	case !made:
		return ui.Hint(api.NewProblem(api.CodeNameTaken, "there is a sandbox "+want.name+" already"), "'berth exec "+want.name+" -- COMMAND' runs a command in it.")
	}
	want.exec.ref = s.ID
	failure := a.execute(ctx, c, want.exec)
	if want.remove {
		a.removeAfter(ctx, c, s.ID)
		return failure
	}
	ref := ui.First(s.Name, s.ID)
	a.Notef("%s", a.Err.Paint(ui.Dim, "The sandbox stays: 'berth exec "+ref+"' runs more in it, 'berth rm "+ref+"' deletes it."))
	return failure
}

// removeTimeout is the timeout for deleting the sandbox of run, also after an interrupt.
const removeTimeout = 30 * time.Second

// removeAfter deletes the sandbox of run. It prints a warning if that fails.
func (a *app) removeAfter(ctx context.Context, c *remote.Connection, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := c.Sandboxes.Delete(ctx, id, client.SkipSave()); err != nil {
		a.Warnf("the sandbox may be left (%s): 'berth rm %s' deletes it", ui.Clean(err.Error()), id)
	}
}
