package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

// creation is what the flags of create ask for.
type creation struct {
	api.CreateSandbox
	env      environ
	metadata []string
	timeout  time.Duration
}

func (f *frame) create() *cobra.Command {
	var want creation
	cmd := &cobra.Command{
		Use:   "create [NAME]",
		Short: "Make a sandbox and wait until it runs",
		Long: `Make a sandbox and wait until it runs.

Asking again for a name that is there returns the sandbox that has it; asking for it with another
template or driver is refused. Ends with 124 if it does not run within --timeout.`,
		Example: `  berth create scratch
  berth create scratch --driver fake --metadata team=blue
  TOKEN=… berth create scratch --env TOKEN --env MODE=test
  id=$(berth create -q)`,
		Args: takes(0, 1, "one NAME"),
		RunE: run(func(ctx context.Context, args []string) error {
			want.Name = first(args...)
			return f.runCreate(ctx, want)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := f.online(cmd).Flags()
	flags.StringVar(&want.ID, "id", "", "`UUID` to make it under (default: a new one)")
	flags.StringVar(&want.Template, "template", "", "`TEMPLATE` (default: the server's)")
	flags.StringVar(&want.Driver, "driver", "", "`DRIVER` (default: the template's)")
	flags.StringVar(&want.Profile, "profile", "", "`SIZE`: lite, standard or full")
	f.environFlags(cmd, &want.env)
	flags.StringArrayVarP(&want.metadata, "metadata", "m", nil, "`KEY=VALUE` of your own, shown with it; repeatable")
	flags.DurationVar(&want.timeout, "timeout", 0, "`TIME` to wait for it, such as 30s; the server goes on after that (default: 5m)")
	f.quietly(cmd, "the id")
	offer(cmd, "profile", []string{"lite", "standard", "full"})
	offer(cmd, "driver", f.Drivers)
	offer(cmd, "template", []string{})
	return cmd
}

func (f *frame) runCreate(ctx context.Context, want creation) (err error) {
	if want.Env, err = f.environment(want.env.given, want.env.file); err != nil {
		return err
	}
	if want.Metadata, err = pairs("--metadata", want.metadata); err != nil {
		return err
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	start := f.now()
	spin := f.spin("creating " + orNew(want.CreateSandbox))
	stop := follow(ctx, c, spin, first(want.ID, want.Name))
	patient, cancel := within(ctx, want.timeout)
	defer cancel()
	sandbox, made, err := c.Sandboxes.Create(patient, want.CreateSandbox)
	stop()
	spin.stop()
	switch {
	case err != nil && ctx.Err() != nil:
		f.goesOn(lookFor(want.CreateSandbox))
		return err
	case err != nil && patient.Err() != nil:
		f.complain("it does not run after %s (--timeout); the server goes on: '%s' shows how far it is", brief(want.timeout), clean(lookFor(want.CreateSandbox)))
		return exited(ExitTimeout)
	case err != nil:
		return c.explain(err)
	}
	return f.showCreated(sandbox, made, f.now().Sub(start))
}

// within bounds a context where a bound is given.
func within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if most <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, most)
}

// follow shows the state on its way, where there is a name to ask for.
func follow(ctx context.Context, c *connection, spin *spinner, ref string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	if spin == nil || ref == "" {
		return cancel
	}
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if sandbox, err := c.Sandboxes.Get(ctx, ref); err == nil {
				spin.phase(clean(sandbox.State))
			}
		}
	}()
	return cancel
}

func (f *frame) showCreated(s api.Sandbox, made bool, took time.Duration) error {
	switch {
	case f.quiet:
		_, err := fmt.Fprintln(f.out, clean(s.ID))
		return err
	case f.json:
		return writeJSON(f.out, s)
	}
	how := "was there already"
	if made {
		how = "made in " + brief(took)
	}
	ref := clean(first(s.Name, s.ID))
	fmt.Fprintf(f.out, "%s is %s (%s)\n", f.out.paint(bold, ref), f.out.paint(stateColour(s.State), clean(s.State)), how)
	if err := f.details([]detail{{"id", s.ID}, {"driver", s.Driver}, {"template", s.Template}}); err != nil {
		return err
	}
	if f.out.tty {
		fmt.Fprintf(f.out, "\nNext:\n  berth exec %[1]s -- uname -a\n  berth shell %[1]s\n  berth rm %[1]s\n", ref)
	}
	return nil
}

// lookFor is the command that shows what became of it.
func lookFor(want api.CreateSandbox) string {
	if ref := first(want.ID, want.Name); ref != "" {
		return "berth get " + ref
	}
	return "berth ls"
}

func orNew(want api.CreateSandbox) string {
	return clean(first(want.Name, want.ID, "a sandbox"))
}
