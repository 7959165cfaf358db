package slack

import (
	"context"
	"io"
	"iter"

	"github.com/berthdev/berth/api"
)

// Threads is the part of Berth that answers messages.
type Threads interface {
	// Post sends a prompt to a thread, which it creates if necessary. A second call with the same turn changes nothing.
	Post(ctx context.Context, p Prompt) error
	// Events yields the events of a turn from its first one to turn.finished.
	Events(ctx context.Context, tenant, turn string) iter.Seq2[api.TurnEvent, error]
	// Cancel asks a turn to end. It does nothing if the turn has ended.
	Cancel(ctx context.Context, tenant, turn, reason string) error
	// Stop stops the thread's sandbox and keeps its files. It does nothing if there is none.
	Stop(ctx context.Context, t Thread) error
	// Open opens a file of the thread's workspace.
	Open(ctx context.Context, t Thread, path string) (io.ReadCloser, error)
	// Show describes the thread's sandbox for people.
	Show(ctx context.Context, t Thread) (Overview, error)
	// Previews returns the ports of the thread's sandbox that something listens on, with URLs for people of its workspace.
	// They are nil if they are not known.
	Previews(ctx context.Context, t Thread) ([]Preview, error)
}

// Thread names a thread of a Slack workspace and its sandbox.
type Thread struct {
	Tenant    string
	Workspace string // Slack's id of the workspace
	Key       string // CHANNEL:TS, or dm:USER
	Channel   string
}

// Prompt is a message to an agent.
type Prompt struct {
	Thread   Thread
	Turn     string // the id of the turn
	Template string // of a new thread; empty: the default
	Text     string
	Files    []api.PromptFile
	User     User
	Accounts bool // a person without an account gets one
}

// User is a person in Slack.
type User struct {
	ID, Name string
	Email    string // empty: Slack does not say
}

// Overview describes a thread's sandbox.
type Overview struct {
	Sandbox string // its id; empty: there is none yet
	State   string
	Files   []string // the newest files that turns have shown
	Stats   api.Stats
}

// Preview is a port of the sandbox that something listens on.
type Preview struct {
	Port int
	URL  string // empty: ports cannot be opened in a browser
}
