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
	making
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
	f.online(cmd).Flags().StringVar(&want.ID, "id", "", "`UUID` to make it under (default: a new one)")
	f.makingFlags(cmd, &want.making)
	f.quietly(cmd, "the id")
	return cmd
}

func (f *frame) runCreate(ctx context.Context, want creation) (err error) {
	if want.Env, want.Metadata, err = want.values(f); err != nil {
		return err
	}
	want.Template, want.Driver, want.Profile = want.template, want.driver, want.profile
	c, err := f.connect()
	if err != nil {
		return err
	}
	start := f.now()
	var sandbox api.Sandbox
	var made bool
	err = f.awaited(ctx, wait{
		what: "creating " + orNew(want.CreateSandbox), look: lookFor(want.CreateSandbox), most: want.timeout,
		state: c.stateOf(first(want.ID, want.Name)),
	}, func(ctx context.Context) error {
		sandbox, made, err = c.Sandboxes.Create(ctx, want.CreateSandbox)
		return err
	})
	if err != nil {
		return c.explain(err)
	}
	return f.showCreated(sandbox, made, f.now().Sub(start))
}

func (f *frame) showCreated(s api.Sandbox, made bool, took time.Duration) error {
	switch {
	case f.quiet:
		return f.line(s.ID)
	case f.json:
		return writeJSON(f.out, s)
	}
	ref := clean(first(s.Name, s.ID))
	if err := f.sayMade(ref, s.State, made, took); err != nil {
		return err
	}
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
