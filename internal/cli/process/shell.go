package process

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) shell() *cobra.Command {
	s := session{input: true, keys: defaultDetachKeys}
	var env remote.EnvFlags
	cmd := &cobra.Command{
		Use:     "shell ID|NAME",
		Aliases: []string{"sh", "ssh"},
		Short:   "Open a shell in a sandbox",
		Long: `Open a shell in a sandbox, on this terminal. A stopped sandbox is started first.

Ctrl-P Ctrl-Q leaves the shell running, and --attach returns to it. After a lost connection the command
reconnects. The exit code is the shell's.`,
		Example:           "  berth shell scratch\n  berth shell scratch --user root\n  berth shell scratch --attach 01jd3k",
		Args:              ui.Args(1, 1, "the ID or NAME of one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			s.ref = args[0]
			return a.runShell(ctx, &s, env)
		}),
	}
	a.Online(cmd)
	flags := cmd.Flags()
	flags.StringVar(&s.options.Attach, "attach", "", "`ID` of a terminal that runs, to come back to")
	a.EnvFlags(cmd, &env)
	flags.StringVarP(&s.options.Exec.Cwd, "workdir", "w", "", "`DIRECTORY` to begin in (default: /workspace, where relative ones begin)")
	a.UserFlag(cmd, &s.options.Exec.User)
	s.keys.flag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("attach", a.completeTerminals)
	return cmd
}

func (a *app) runShell(ctx context.Context, s *session, env remote.EnvFlags) (err error) {
	exec := &s.options.Exec
	if exec.Env, err = a.ReadEnv(env.Given, env.File); err != nil {
		return err
	}
	if s.options.Attach != "" && (len(exec.Env) > 0 || exec.Cwd != "" || exec.User != "") {
		return ui.Usage("--attach comes back to a shell as it is: it takes no --env, --workdir or --user", "'berth shell --help' shows its usage.")
	}
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if s.options.Attach, err = c.WholeID(ctx, s.options.Attach, execIDs(s.ref)); err != nil {
		return err
	}
	end, err := a.session(ctx, c, s)
	if err != nil {
		return c.NotFoundHint(ctx, s.ref, noSuchExec(s.ref, err))
	}
	return a.exit(s.ref, *exec, end)
}
