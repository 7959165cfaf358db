// Berth is a single program with four roles: the server, the command line, the helper inside sandboxes, and the process
// that serves the ways out of sandboxes.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/cli"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/egress/gateway"
)

// The linker sets both for releases: -ldflags "-X main.version=… -X main.commit=…".
var version, commit string

func main() {
	if os.Args[0] == gateway.Name {
		os.Exit(egress())
	}
	os.Exit(cli.Main(os.Args[1:], cli.Deps{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv,
		Version: version, Commit: commit, Drivers: app.Drivers(),
		Serve: serve, Migrate: app.Migrate, Fsck: app.Fsck, Down: app.Down, Probe: app.Probe, OpenStore: app.OpenStore,
		Secrets: app.Secrets, ForgetSecret: app.ForgetSecret,
	}))
}

func serve(ctx context.Context, cfg *config.Loaded, out io.Writer) error {
	server, err := app.NewServer(ctx, app.Options{Config: cfg, Version: version, Out: out, Gateway: "/proc/self/exe"})
	if err != nil {
		return err
	}
	return errors.Join(server.Serve(ctx), server.Close())
}
