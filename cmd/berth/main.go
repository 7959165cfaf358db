// Berth is a single program with three roles: the server, the command line and the helper inside sandboxes.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/cli"
	"github.com/berthdev/berth/internal/config"
)

// The linker sets both for releases: -ldflags "-X main.version=… -X main.commit=…".
var version, commit string

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Deps{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv,
		Version: version, Commit: commit, Drivers: app.Drivers(),
		Serve: serve, Migrate: app.Migrate, Fsck: app.Fsck, Down: app.Down, Probe: app.Probe, OpenStore: app.OpenStore,
		Secrets: app.Secrets, ForgetSecret: app.ForgetSecret,
	}))
}

func serve(ctx context.Context, cfg *config.Loaded, out io.Writer) error {
	server, err := app.NewServer(ctx, app.Options{Config: cfg, Version: version, Out: out})
	if err != nil {
		return err
	}
	return errors.Join(server.Serve(ctx), server.Close())
}
