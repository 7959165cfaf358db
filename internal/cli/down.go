package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

func (f *frame) down() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop every sandbox of this machine",
		Long: `Stop every sandbox of this machine, of all tenants, and keep their files; the next use of one starts
it again. It asks the server that uses the data directory, or does it itself when none runs.`,
		Example: "  berth down\n  berth down --data-dir /var/lib/berth",
		Args:    takes(0, 0, ""),
	}
	load := f.configured(cmd)
	cmd.Flags().StringVar(&f.server, "server", "", "`URL` of the server, if one runs (env BERTH_SERVER; default "+defaultServer+")")
	cmd.RunE = run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		spin := f.spin("stopping sandboxes")
		done, err := f.Down(ctx, cfg)
		if sandbox.CodeOf(err) == api.CodeDataDirLocked {
			f.dataDir = cfg.DataDir
			done, err = f.askDown(ctx)
		}
		spin.stop()
		if err != nil {
			return err
		}
		return f.sayDown(done)
	})
	return cmd
}

// askDown has the server do it that holds the data directory.
func (f *frame) askDown(ctx context.Context) (api.Down, error) {
	c, err := f.connect()
	if err != nil {
		return api.Down{}, err
	}
	done, err := c.Down(ctx)
	return done, c.explain(err)
}

func (f *frame) sayDown(done api.Down) error {
	if f.json {
		if err := writeJSON(f.out, done); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(f.out, plural(done.Stopped, "sandbox", "sandboxes")+" stopped"); err != nil {
		return err
	}
	if done.Failed > 0 {
		return &hinted{fmt.Errorf("%s could not be stopped", plural(done.Failed, "sandbox", "sandboxes")), "The server's log, or the lines above, say why; 'berth ls' shows which still run."}
	}
	return nil
}
