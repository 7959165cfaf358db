// Package agent is the interface between Berth and the agents that work in sandboxes.
//
// A [Runtime] separates starting a turn from reading it: [Runtime.Start] begins a turn in the sandbox, and
// [Runtime.Events] reads its output from a [Cursor], any number of times. If a client, a server or a connection goes
// away, the turn goes on. Package agenttest is the test suite for runtimes; the other packages below this one are
// runtimes.
package agent

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
)

// Runtime starts, reads and cancels the turns of one kind of agent. It keeps no state of running turns in memory, and
// it is safe for concurrent use.
type Runtime interface {
	// Name returns the name of the runtime in templates.
	Name() string

	// Start begins the turn. It returns once the turn will run even if the caller goes away. Starting a turn again
	// does nothing and returns nil: a server that takes over a turn may not know that it was started. An error means
	// that nothing runs.
	Start(ctx context.Context, h *engine.Handle, t Turn) error

	// Events yields the events of the turn after the cursor as they arrive. The zero Cursor is the beginning. The last
	// step has an End. Reading again from the cursor of a step yields everything after that step, without gaps or
	// repeats. An error means that the output cannot be read now. guest.ErrNoProcess means that this instance of the
	// sandbox has no process for the turn.
	Events(ctx context.Context, h *engine.Handle, t Turn, after Cursor) iter.Seq2[Step, error]

	// Cancel asks the turn to end, and kills it if it does not end in time. Events reports the end. Cancelling a turn
	// that has ended or never began returns nil.
	Cancel(ctx context.Context, h *engine.Handle, t Turn) error
}

// Turn is one prompt to an agent.
type Turn struct {
	ID          string // a UUID
	Attempt     int    // from 1; each attempt has its own process in the sandbox
	Prompt      string
	Attachments []Attachment // of the prompt, in order
	Model       string       // empty: the agent's default
	Agent       string       // the kind of agent, for a runtime that runs several; empty: the runtime's default
	Command     []string     // the command line of the agent, from the template; nil: the runtime's default
	Permissions string       // the permission mode, as the agent names it; empty: everything is allowed
	Session     Session
	// Servers are MCP servers, by name. The agent starts them itself and has their tools in addition to its own.
	Servers map[string]Server
	// History holds the earlier messages of the conversation, for an agent that starts a new session.
	History []api.Message
	// Seconds limits the turn, counted from its start. The sandbox enforces the limit, so it holds even if no server
	// is connected. Zero: no limit.
	Seconds int64
}

// Server is an MCP server that uses its standard input and output.
type Server struct {
	Command []string
	Env     map[string]string // in addition to the environment of every command in the sandbox
	Timeout time.Duration     // for the start, and for each call
}

// Session is the agent's memory of a conversation.
type Session struct {
	ID     string // a UUID chosen by Berth
	Resume bool   // an earlier turn began the session; false: this turn begins it
}

// Cursor is a position in a turn's events. Offset only grows. State is small and private to the runtime: with Offset
// it is enough to read on.
type Cursor struct {
	Offset int64
	State  json.RawMessage
}

// Step is the result of one read of the agent's output. A step without events only advances the cursor.
type Step struct {
	Events []api.TurnEvent
	Cursor Cursor
	End    *End // nil except on the last step
}

// End describes the end of a turn.
type End struct {
	Status  string // api.TurnCompleted, TurnFailed, TurnCancelled or TurnInterrupted
	Code    api.Code
	Message string // a text for people, if the turn did not complete
	// StopReason is the reason why the model stopped, in the words of the model's service. It is empty if the agent
	// reported none.
	StopReason string
	Usage      api.Usage
	Model      string
	CostUSD    float64 // as the agent reports it; zero: not reported

	// Again reports that the agent did no work because its process or its sandbox ended. Another attempt may succeed.
	Again bool
	// NoSession reports that the session to resume no longer exists. The agent did nothing.
	NoSession bool
}
