// Package server implements the commands that run, check and administer a server.
package server

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/config"
)

// Program holds the functions that run parts of a server, and the version of this program.
type Program struct {
	// Build is the version, commit and platform of this program.
	Build string
	// Serve runs the server until the context ends. It prints its address and keys to out.
	Serve func(ctx context.Context, cfg *config.Loaded, out io.Writer) error
	// Migrate updates the database to this binary's schema and returns a description of the changes.
	Migrate func(ctx context.Context, cfg *config.Loaded) (string, error)
	// Fsck checks the invariants of the database without changing anything.
	Fsck func(ctx context.Context, cfg *config.Loaded) (api.Fsck, error)
	// Down stops every sandbox of this machine. It fails if a server uses the data directory.
	Down func(ctx context.Context, cfg *config.Loaded) (api.Down, error)
	// Secrets returns the root secrets that the database needs. ForgetSecret marks one of them as lost.
	Secrets      func(ctx context.Context, cfg *config.Loaded) (api.Secrets, error)
	ForgetSecret func(ctx context.Context, cfg *config.Loaded, fingerprint string) (api.Secrets, error)
	// Probe tests the needs of the local driver and the object store. It leaves no traces. It may be nil.
	Probe func(ctx context.Context, cfg *config.Loaded) []api.Check
}

type app struct {
	*remote.Remote
	Program
}

// Commands returns the commands of the package and template, in the order of the help page.
func Commands(r *remote.Remote, p Program, template *cobra.Command) []*cobra.Command {
	a := &app{r, p}
	return []*cobra.Command{
		a.serve(), a.down(), a.sweep(), a.host(), a.keys(), a.account(), a.slack(), template, a.config(), a.migrate(), a.secret(), a.fsck(), a.doctor(),
	}
}
