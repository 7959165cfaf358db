package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (f *frame) shell() *cobra.Command {
	s := session{input: true, keys: defaultDetachKeys}
	var env environ
	cmd := &cobra.Command{
		Use:     "shell ID|NAME",
		Aliases: []string{"sh", "ssh"},
		Short:   "Open a shell in a sandbox",
		Long: `Open a shell in a sandbox, on this terminal. A stopped sandbox is started first.

Ctrl-P Ctrl-Q leaves the shell and everything in it running, and --attach comes back to it. A lost
connection is made again by itself. The exit code is the shell's.`,
		Example:           "  berth shell scratch\n  berth shell scratch --user root\n  berth shell scratch --attach 01jd3k",
		Args:              takes(1, 1, "the ID or NAME of one sandbox"),
		ValidArgsFunction: f.completeSandboxes(1),
		RunE: run(func(ctx context.Context, args []string) error {
			s.ref = args[0]
			return f.runShell(ctx, &s, env)
		}),
	}
	f.online(cmd)
	flags := cmd.Flags()
	flags.StringVar(&s.options.Attach, "attach", "", "`ID` of a terminal that runs, to come back to")
	f.environFlags(cmd, &env)
	flags.StringVarP(&s.options.Exec.Cwd, "workdir", "w", "", "`DIRECTORY` to begin in (default: /workspace, where relative ones begin)")
	f.userFlag(cmd, &s.options.Exec.User)
	s.keys.flag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("attach", f.completeTerminals)
	return cmd
}

func (f *frame) runShell(ctx context.Context, s *session, env environ) (err error) {
	exec := &s.options.Exec
	if exec.Env, err = f.environment(env.given, env.file); err != nil {
		return err
	}
	if s.options.Attach != "" && (len(exec.Env) > 0 || exec.Cwd != "" || exec.User != "") {
		return &usageError{"--attach comes back to a shell as it is: it takes no --env, --workdir or --user", "'berth shell --help' shows how it is used."}
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	end, err := f.session(ctx, c, s)
	if err != nil {
		return c.about(ctx, s.ref, noSuchExec(s.ref, err))
	}
	return f.exit(s.ref, *exec, end)
}
