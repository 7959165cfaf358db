// Package cli is the command line: everything a person types after "berth".
//
// [Main] runs one command and returns its exit code; [Deps] is what main hands to it. Verbs that
// talk to a server use package client and nothing else; serve and migrate are given as functions,
// so that this package knows nothing of what a server is made of. The workspace commands run package
// workspace themselves, on a store that they are given. Each command lives in the file of its name, and
// a test refuses one without help, example and golden file.
package cli

import (
	"context"
	"errors"
	"io"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/config"
)

// Deps is what the command line is made of.
type Deps struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env looks a variable up, as os.LookupEnv does.
	Env func(string) (string, bool)
	// Version and Commit are set when a release is linked; empty: what the toolchain recorded.
	Version, Commit string
	// Drivers are the kinds of driver this binary holds.
	Drivers []string
	// Serve runs the server until the context ends and prints what people need to know to out.
	Serve func(ctx context.Context, cfg *config.Loaded, out io.Writer) error
	// Migrate brings the database to this binary's schema and says what it did.
	Migrate func(ctx context.Context, cfg *config.Loaded) (string, error)
	// Fsck proves what must be true of the database, and changes nothing.
	Fsck func(ctx context.Context, cfg *config.Loaded) (api.Fsck, error)
	// Down stops every sandbox of this machine while no server uses the data directory.
	Down func(ctx context.Context, cfg *config.Loaded) (api.Down, error)
	// OpenStore opens an object store by its address; nil, without an error, where the address is "none".
	OpenStore func(ctx context.Context, address string) (blob.Store, error)
	// Probe tries what this machine's own engine needs, changing nothing that stays; nil: there is none.
	Probe func(ctx context.Context, cfg *config.Loaded) []api.Check
}

// The exit codes that are Berth's own. An inner command's code passes through as it is.
const (
	ExitOK          = 0
	ExitTimeout     = 124 // what was asked for took longer than --timeout allows
	ExitBerth       = 125 // Berth could not do it; the words are on stderr
	ExitInterrupted = 130
)

// Main runs the command that args, without the program's name, ask for.
func Main(args []string, deps Deps) int {
	f := newFrame(deps)
	ctx, stop := f.interrupts.watch()
	defer stop()
	root := f.root()
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	err := root.ExecuteContext(ctx)
	var ended exited
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &ended):
		return int(ended)
	case errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return ExitInterrupted
	case !errors.Is(err, errReported):
		f.fail(err)
	}
	return ExitBerth
}
