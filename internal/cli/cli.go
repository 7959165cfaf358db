// Package cli implements the command line of Berth.
//
// [Main] runs one command and returns its exit code. [Deps] holds its dependencies. The commands are in packages by
// resource below this one: sandbox, process, files, versions, chat, project, server and template. Each has a function
// Commands that takes a [remote.Remote]. Package ui is the terminal, and package remote the connection to a server.
// Commands for a running server use package client only; commands that run parts of a server get functions for them. A
// test refuses a command without help, example or golden file.
package cli

import (
	"context"
	"errors"
	"io"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
)

// Deps are the dependencies of the command line.
type Deps struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env looks up an environment variable, like os.LookupEnv.
	Env func(string) (string, bool)
	// Version and Commit are set by the linker in releases; empty: use the values that the Go toolchain recorded.
	Version, Commit string
	// Drivers are the kinds of driver in this binary.
	Drivers []string
	// Serve runs the server until the context ends. It prints messages for the user to out.
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
	// OpenStore opens the object store at an address. It returns nil without an error for the address "none".
	OpenStore func(ctx context.Context, address string) (blob.Store, error)
	// Probe tests the needs of the local driver and the object store. It leaves no traces. It may be nil.
	Probe func(ctx context.Context, cfg *config.Loaded) []api.Check
}

// app is one run of the command line.
type app struct {
	*remote.Remote
	deps Deps
}

func newApp(deps Deps) *app {
	u := ui.New(deps.Stdin, deps.Stdout, deps.Stderr, deps.Env)
	return &app{remote.New(u, deps.build().Version, deps.Drivers), deps}
}

// Main runs a command and returns its exit code. args are the arguments without the program's name.
func Main(args []string, deps Deps) int {
	a := newApp(deps)
	ctx, stop := a.Interrupts.Watch()
	defer stop()
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // cobra uses the arguments of the process for nil
	err := root.ExecuteContext(ctx)
	var ended ui.ExitCode
	switch {
	case err == nil:
		return ui.ExitOK
	case errors.As(err, &ended):
		return int(ended)
	case errors.Is(err, ui.ErrInterrupted) || errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return ui.ExitInterrupted
	case !errors.Is(err, ui.ErrReported):
		a.Fail(err)
	}
	return ui.ExitBerth
}
