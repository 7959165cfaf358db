package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
)

// CreateFlags holds the flags of commands that create a sandbox.
type CreateFlags struct {
	Template, Driver, Profile string
	env                       EnvFlags
	metadata                  []string
	Timeout                   time.Duration
}

// CreateFlags adds the flags to cmd.
func (r *Remote) CreateFlags(cmd *cobra.Command, m *CreateFlags) {
	flags := cmd.Flags()
	flags.StringVar(&m.Template, "template", "", "`TEMPLATE` (default: the server's)")
	flags.StringVar(&m.Driver, "driver", "", "`DRIVER` (default: the template's)")
	flags.StringVar(&m.Profile, "profile", "", "`SIZE`: lite, standard or full")
	r.EnvFlags(cmd, &m.env)
	flags.StringArrayVarP(&m.metadata, "metadata", "m", nil, "`KEY=VALUE` of your own, shown with it; repeatable")
	flags.DurationVar(&m.Timeout, "timeout", 0, "`TIME` to wait for it, such as 30s; the server goes on after that (default: 5m)")
	ui.Offer(cmd, "profile", []string{"lite", "standard", "full"})
	ui.Offer(cmd, "driver", r.Drivers)
	ui.Offer(cmd, "template", []string{})
}

// Values returns the environment and the metadata of the flags.
func (m *CreateFlags) Values(r *Remote) (env, metadata map[string]string, err error) {
	if env, err = r.ReadEnv(m.env.Given, m.env.File); err != nil {
		return nil, nil, err
	}
	metadata, err = pairs("--metadata", m.metadata)
	return env, metadata, err
}

// Wait describes a wait until a sandbox runs.
type Wait struct {
	What  string        // the action, shown to the user
	Look  string        // command that shows the progress
	Most  time.Duration // timeout; zero: none
	State stateFunc     // returns the state to show; nil: none
}

// stateFunc returns the state of a sandbox.
type stateFunc func(context.Context) (state string, err error)

// Await runs do and shows its progress. After an interrupt or the timeout it notes that the server continues.
func (r *Remote) Await(ctx context.Context, w Wait, do func(context.Context) error) error {
	spin := r.Spin(w.What)
	stop := showState(ctx, spin, w.State)
	patient, cancel := withTimeout(ctx, w.Most)
	defer cancel()
	err := do(patient)
	stop()
	spin.Stop()
	switch {
	case err != nil && ctx.Err() != nil:
		r.NoteServerContinues(w.Look)
	case err != nil && patient.Err() != nil:
		r.Errorf("it does not run after %s (--timeout); the server goes on: '%s' shows how far it is", ui.Brief(w.Most), ui.Clean(w.Look))
		return ui.ExitCode(ui.ExitTimeout)
	}
	return err
}

// withTimeout returns a context with a timeout if most is positive.
func withTimeout(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if most <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, most)
}

// showState shows the state in the spinner until stop is called.
func showState(ctx context.Context, spin *ui.Spinner, ask stateFunc) (stop func()) {
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
				spin.Phase(ui.Clean(state))
			}
		}
	}()
	return cancel
}

// StateOf returns a function that reads the state of a sandbox, or nil if ref is empty.
func (c *Connection) StateOf(ref string) stateFunc {
	if ref == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		s, err := c.Sandboxes.Get(ctx, ref)
		return s.State, err
	}
}

// PrintCreated prints the result of a create.
func (r *Remote) PrintCreated(ref, state string, made bool, took time.Duration) error {
	how := "was there already"
	if made {
		how = "made in " + ui.Brief(took)
	}
	_, err := fmt.Fprintf(r.Out, "%s is %s (%s)\n", r.Out.Paint(ui.Bold, ref), r.Out.Paint(ui.StateColour(state), ui.Clean(state)), how)
	return err
}
