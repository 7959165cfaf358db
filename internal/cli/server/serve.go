package server

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until Ctrl-C or SIGTERM, which let running requests finish. Sandboxes keep running.

Every setting can also be in a TOML file or the environment; flags take precedence over both. 'berth
config' takes the same flags and shows the resulting settings.`,
		Example: `  berth serve
  berth serve --listen 0.0.0.0:7070 --allowed-hosts berth.example.com
  DATABASE_URL=postgres://berth@db/berth berth serve --config /etc/berth.toml`,
		Args: ui.Args(0, 0, ""),
	}
	load := a.Settings(cmd)
	cmd.RunE = ui.Run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		defer runtime.KeepAlive(make([]byte, ballast(os.Getenv, memoryLimit())))
		defer raisePriority()()
		return a.Serve(ctx, cfg, a.Stdout)
	})
	return cmd
}

func (a *app) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the database",
		Long: `Migrate the database, forward only, under a lock. 'berth serve' does the same at its start; this command
does it separately.

If message_store names a table of DynamoDB, a missing table is created. 'berth serve' does not do that.`,
		Example: "  berth migrate\n  berth migrate --database-url postgres://berth@db/berth",
		Args:    ui.Args(0, 0, ""),
	}
	load := a.Settings(cmd)
	cmd.RunE = ui.Run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		report, err := a.Migrate(ctx, cfg)
		switch {
		case err != nil:
			return err
		case a.JSON:
			return ui.WriteJSON(a.Out, map[string]string{"report": report})
		}
		_, err = fmt.Fprintln(a.Out, report)
		return err
	})
	return cmd
}
