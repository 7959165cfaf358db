// Package guest is how Berth talks to the helper inside a running instance.
//
// A [Conn] runs commands, starts processes that outlive the server, and carries connections in and out.
// It has one suite, guesttest, and one transport for instances on this machine: the helper is the
// instance's pid 1 (package boot), it listens on a Unix socket that only the host can see, and
// descriptors travel with the messages (package wire), so that the bytes of a command never pass through
// it. What a long-lived process writes goes into a spool (package spool) on the host's side.
//
// Whatever comes out of an instance is hostile: exit codes, output, and the state of its files. The
// helper itself is ours and out of reach for what runs beside it.
package guest

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"syscall"
	"time"
)

// Errors of a Conn. Everything else means that the helper could not be asked.
var (
	ErrGone      = errors.New("the instance does not run")           // the helper does not answer any more
	ErrNoProcess = errors.New("no such process")                     // nothing was started under that id
	ErrExists    = errors.New("a process has that id")               // ids are never reused
	ErrTrimmed   = errors.New("that part of the output is gone")     // older than what the spool keeps
	ErrInvalid   = errors.New("invalid request")                     // nothing was done
	ErrNoInput   = errors.New("the process takes no input any more") // it ended, or its input was closed
	ErrRefused   = errors.New("connection refused")                  // nobody listens on that port inside
	ErrDiskFull  = errors.New("no space left for the output")        // nothing was started
)

// The users of an instance.
const (
	Agent = "agent" // uid 1000, no capabilities; the default
	Root  = "root"  // the instance's own root, with what package managers need and nothing more
)

// Where things are inside.
const (
	Workspace = "/workspace"
	Home      = "/home/agent"
)

// Exit codes of commands that did not run to their end, as in a shell.
const (
	ExitTimeout   = 124
	ExitCannotRun = 126 // there is such a file, and it cannot be executed
	ExitNotFound  = 127
)

// Conn is a connection to the helper of one instance. It is safe for concurrent use.
type Conn interface {
	// Run runs a command to its end. When ctx ends the command and its process group are killed and
	// the error is ctx's. A command that cannot be run is not an error: it exits with 126 or 127, and
	// Exit.Reason says why.
	Run(ctx context.Context, cmd Cmd, std Stdio) (Exit, error)

	// Start starts a process under an id of the caller's choice (1 to 64 of a-z, 0-9 and -). It
	// outlives this connection and this server; what it writes goes into its spool. A second Start of
	// an id is ErrExists, also after the process ended. One that cannot be run has ended with 126 or 127.
	Start(ctx context.Context, id string, cmd Cmd) error

	// Process is the process started under an id; it does not ask whether there is one.
	Process(id string) Process

	// Processes lists the processes started here since the instance started, ended ones too.
	Processes(ctx context.Context) ([]Status, error)

	// KillAll kills every process in the instance but the helper.
	KillAll(ctx context.Context) error

	// Dial connects to a port of the instance's loopback.
	Dial(ctx context.Context, port uint16) (net.Conn, error)

	// Listen listens on a port of the instance's loopback. The helper keeps the listener: a second
	// Listen, also by another server, gets the same one, and closing it closes only this copy.
	Listen(ctx context.Context, port uint16) (net.Listener, error)

	// Ping asks the helper whether it is there.
	Ping(ctx context.Context) error

	Close() error
}

// Process is a process that was started with Start.
type Process interface {
	Status(ctx context.Context) (Status, error)

	// Output yields what the process wrote behind the offset, as it comes, and ends after the chunk
	// that carries its Exit. While it is read, nothing that it has not yielded is trimmed, and a process
	// that is too fast waits, unless the reader stands still for too long. An offset that the spool no longer has yields ErrTrimmed; a negative one
	// stands for the oldest that it has.
	Output(ctx context.Context, after int64) iter.Seq2[Chunk, error]

	// Write gives input to a process whose Cmd asked for it, waiting while the process does not read.
	Write(ctx context.Context, p []byte) (int, error)
	CloseInput(ctx context.Context) error

	// Resize tells the process's terminal its size.
	Resize(ctx context.Context, size Size) error

	// Signal signals the process group. It is ErrNoProcess when the process has ended.
	Signal(ctx context.Context, sig syscall.Signal) error
}

// Cmd is a command. Argv[0] is looked up in the PATH of Env unless it has a slash.
type Cmd struct {
	Argv []string
	Dir  string   // empty: the workspace
	Env  []string // NAME=value, all of it: nothing is added but PATH, HOME, USER where missing
	User string   // empty: Agent

	// For Start only.
	Input    bool  // it reads from a pipe that Write fills; otherwise from /dev/null
	Terminal *Size // it has a terminal; stdout and stderr are one, and Input is implied
	Keep     int64 // how many bytes of output the spool keeps at least, at most MostKept; zero: DefaultKeep
	Follow   bool  // Output is read from the start at once: nothing is trimmed before that reader comes

	// Timeout, for Start only, is when the helper kills the process's session, whoever is there to see
	// it; zero: never. Run ends with its context.
	Timeout time.Duration
}

// How many bytes of a process's output are kept when its Cmd does not say, and how many at most. Of the
// processes that ended, the newest few hundred are kept, as long as all of their output is no more than
// MostKept.
const (
	DefaultKeep = 16 << 20
	MostKept    = 256 << 20
)

// Size is a terminal's size in characters.
type Size struct{ Rows, Cols uint16 }

// Stdio is where a command's streams lead. Nil is an empty input, or an output nobody wants. Reading and
// writing end with the command: what its descendants write after a short grace is lost.
type Stdio struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Exit is how a command ended.
type Exit struct {
	Code   int // 128 + the signal's number if one ended it, as in a shell
	Signal syscall.Signal
	Reason string // why it could not be run, for 126 and 127, or was killed, for 124
	Lost   bool   // its instance ended before it did; Code says nothing
	At     time.Time
	CPU    time.Duration
	MaxRSS int64 // bytes
}

// Stream is which of its outputs a process wrote to.
type Stream uint8

// The streams of a spool.
const (
	Stdout Stream = 1 // a terminal's output, too
	Stderr Stream = 2
)

// Chunk is a piece of output. Next is the offset behind it: give it to Output to read on.
type Chunk struct {
	Stream Stream
	Data   []byte
	Next   int64
	Exit   *Exit // on the last chunk, which has no Data
}

// Status is what is known of a started process.
type Status struct {
	ID        string
	Argv      []string
	Terminal  bool
	StartedAt time.Time
	First     int64 // the oldest offset that can be read
	End       int64 // the offset behind the newest byte
	Exit      *Exit // nil while it runs
}
