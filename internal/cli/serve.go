package cli

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

func (f *frame) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until Ctrl-C or SIGTERM, which let running requests finish. Sandboxes live on.

Every setting can also stand in a TOML file or the environment; a flag is stronger than both.
'berth config' takes the same flags and shows what would be in force.`,
		Example: `  berth serve
  berth serve --listen 0.0.0.0:7070 --allowed-hosts berth.example.com
  DATABASE_URL=postgres://berth@db/berth berth serve --config /etc/berth.toml`,
		Args: takes(0, 0, ""),
	}
	load := f.configured(cmd)
	cmd.RunE = run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		defer runtime.KeepAlive(make([]byte, ballast(os.Getenv, memoryHere())))
		return f.Serve(ctx, cfg, f.Stdout)
	})
	return cmd
}

func (f *frame) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this Berth's schema",
		Long: `Bring the database to this Berth's schema, forward only, under a lock. 'berth serve' does the same
at its start; this is for those who want it apart from that.

Where message_store names a table of DynamoDB, the table is made if it is missing. 'berth serve' does
not do that.`,
		Example: "  berth migrate\n  berth migrate --database-url postgres://berth@db/berth",
		Args:    takes(0, 0, ""),
	}
	load := f.configured(cmd)
	cmd.RunE = run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		report, err := f.Migrate(ctx, cfg)
		switch {
		case err != nil:
			return err
		case f.json:
			return writeJSON(f.out, map[string]string{"report": report})
		}
		_, err = fmt.Fprintln(f.out, report)
		return err
	})
	return cmd
}
