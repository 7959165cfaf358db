package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// making is what the flags of a command say that makes a sandbox.
type making struct {
	template, driver, profile string
	env                       environ
	metadata                  []string
	timeout                   time.Duration
}

// makingFlags adds them.
func (f *frame) makingFlags(cmd *cobra.Command, m *making) {
	flags := cmd.Flags()
	flags.StringVar(&m.template, "template", "", "`TEMPLATE` (default: the server's)")
	flags.StringVar(&m.driver, "driver", "", "`DRIVER` (default: the template's)")
	flags.StringVar(&m.profile, "profile", "", "`SIZE`: lite, standard or full")
	f.environFlags(cmd, &m.env)
	flags.StringArrayVarP(&m.metadata, "metadata", "m", nil, "`KEY=VALUE` of your own, shown with it; repeatable")
	flags.DurationVar(&m.timeout, "timeout", 0, "`TIME` to wait for it, such as 30s; the server goes on after that (default: 5m)")
	offer(cmd, "profile", []string{"lite", "standard", "full"})
	offer(cmd, "driver", f.Drivers)
	offer(cmd, "template", []string{})
}

// values are the environment and the metadata that were given.
func (m *making) values(f *frame) (env, metadata map[string]string, err error) {
	if env, err = f.environment(m.env.given, m.env.file); err != nil {
		return nil, nil, err
	}
	metadata, err = pairs("--metadata", m.metadata)
	return env, metadata, err
}

// wait is something that takes a while until a sandbox runs.
type wait struct {
	what  string        // what is being done, for people
	look  string        // the command that shows how far it is
	most  time.Duration // zero: no bound
	state asker         // nil: nobody can say how far it is
}

// asker asks how far something is.
type asker func(context.Context) (state string, err error)

// awaited does it and shows how far it is. Whoever has no more patience is told that the server goes on.
func (f *frame) awaited(ctx context.Context, w wait, do func(context.Context) error) error {
	spin := f.spin(w.what)
	stop := follow(ctx, spin, w.state)
	patient, cancel := within(ctx, w.most)
	defer cancel()
	err := do(patient)
	stop()
	spin.stop()
	switch {
	case err != nil && ctx.Err() != nil:
		f.goesOn(w.look)
	case err != nil && patient.Err() != nil:
		f.complain("it does not run after %s (--timeout); the server goes on: '%s' shows how far it is", brief(w.most), clean(w.look))
		return exited(ExitTimeout)
	}
	return err
}

// within bounds a context where a bound is given.
func within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if most <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, most)
}

// follow shows the state on its way, where there is somebody to ask.
func follow(ctx context.Context, spin *spinner, ask asker) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	if spin == nil || ask == nil {
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
			if state, err := ask(ctx); err == nil {
				spin.phase(clean(state))
			}
		}
	}()
	return cancel
}

// stateOf asks for the state of a sandbox; one without a name cannot be asked for.
func (c *connection) stateOf(ref string) asker {
	if ref == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		s, err := c.Sandboxes.Get(ctx, ref)
		return s.State, err
	}
}

// sayMade says what became of a wish for a sandbox.
func (f *frame) sayMade(ref, state string, made bool, took time.Duration) error {
	how := "was there already"
	if made {
		how = "made in " + brief(took)
	}
	_, err := fmt.Fprintf(f.out, "%s is %s (%s)\n", f.out.paint(bold, ref), f.out.paint(stateColour(state), clean(state)), how)
	return err
}
