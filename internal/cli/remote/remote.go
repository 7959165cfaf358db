// Package remote holds the shared parts of commands that talk to a server.
//
// [Remote] has the flags of the connection, and [Remote.Connect] returns the client. The rest are parts of commands:
// flags of a new sandbox, batches, waits, deletes, completion, and hints for things that do not exist.
package remote

import (
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/internal/cli/ui"
)

// Remote is the connection of a command to a server.
type Remote struct {
	*ui.UI
	Version       string        // version of this program, for the server's log
	Drivers       []string      // kinds of driver in this program, for completion
	DeleteTimeout time.Duration // time to wait for one delete

	Server  string // value of the flag; empty: the environment or the default
	KeyFile string
	DataDir string

	noticed atomic.Pointer[string] // the last notice that was printed
}

// New returns a Remote that uses the terminal u.
func New(u *ui.UI, version string, drivers []string) *Remote {
	return &Remote{UI: u, Version: version, Drivers: drivers, DeleteTimeout: deleteTimeout}
}
