// Package agent is the seam between Berth and the agents that work in sandboxes.
//
// A [Runtime] keeps two things apart: [Runtime.Start] begins a turn in the sandbox, and [Runtime.Events]
// reads what comes of it, from a [Cursor], as often as anybody likes. A client, a server or a connection
// may go in the middle; the turn does not. Package agenttest is the suite that every runtime passes; the
// packages below this one are runtimes.
package agent

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// Runtime is one way to talk to agents. It keeps nothing in memory of turns that run, and is safe for
// concurrent use.
type Runtime interface {
	// Name is what templates call it.
	Name() string

	// Start begins the turn, and returns once it will run whatever becomes of the caller. A turn that was
	// begun already is not begun again, and is no error: whoever takes over a dead server's turn starts it.
	// An error means that nothing runs.
	Start(ctx context.Context, box Box, t Turn) error

	// Events yields what became of the turn behind the cursor, as it comes. The zero Cursor is the
	// beginning. The last step has an End. Reading again from a step's cursor yields what came after that
	// step, no gap and no repeat. An error says that it cannot be read now; guest.ErrNoProcess, that this
	// instance of the sandbox knows nothing of the turn.
	Events(ctx context.Context, box Box, t Turn, after Cursor) iter.Seq2[Step, error]

	// Cancel asks the turn to end, and makes it end if it does not listen. Its events tell when it has. A
	// turn that has ended, or was never begun, is no error.
	Cancel(ctx context.Context, box Box, t Turn) error
}

// Box is the sandbox, as runtimes need it.
type Box interface {
	// Guest connects to the running sandbox, making it run if it does not.
	Guest(ctx context.Context) (guest.Conn, error)
	// Command adds to a command what every command in this sandbox has: its environment and its user.
	Command(cmd guest.Cmd) guest.Cmd
	// Output reads what a process in the sandbox wrote, without making it run.
	Output(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error]
	// Files opens one of the sandbox's roots, files.WorkingDir or files.HomeDir.
	Files(ctx context.Context, root string) (files.FS, error)
}

// Turn is one prompt to an agent.
type Turn struct {
	ID      string // a UUID
	Attempt int    // from 1; a turn that is tried again is another one to the sandbox
	Prompt  string
	Model   string   // empty: the agent's own choice
	Command []string // the template's way to call the agent; nil: the runtime's own
	Session Session
	// Servers are MCP servers whose tools the agent has beside its own, by name. It starts them itself.
	Servers map[string]Server
	// History is what was said before, for a session that cannot be resumed.
	History []api.Message
	// Deadline bounds the turn, in seconds from its start, whoever is there to see it; zero: none.
	Seconds int64
}

// Server is an MCP server that speaks over its input and output.
type Server struct {
	Command []string
	Env     map[string]string // besides what every command in the sandbox has
	Timeout time.Duration     // of its start, and of each call
}

// Session is the agent's own memory of a conversation.
type Session struct {
	ID     string // a UUID that we chose
	Resume bool   // it has had a turn; false: it begins with this one
}

// Cursor is a place in a turn's events. Offset only grows; what State holds is the runtime's own, small,
// and what it needs to read on from there.
type Cursor struct {
	Offset int64
	State  json.RawMessage
}

// Step is what one read of the agent's output gave. A step without events only moves the cursor.
type Step struct {
	Events []api.TurnEvent
	Cursor Cursor
	End    *End // on the last step
}

// End is how a turn ended.
type End struct {
	Status  string // api.TurnCompleted, TurnFailed, TurnCancelled or TurnInterrupted
	Code    api.Code
	Message string // for people, if it did not complete
	Usage   api.Usage
	Model   string
	CostUSD float64 // the agent's own figure; zero: it gave none

	// Again says that the agent never got to work, for a reason that another attempt may not meet: its
	// process or its sandbox went away under it.
	Again bool
	// NoSession says that the session to be resumed is gone. Nothing was done.
	NoSession bool
}
