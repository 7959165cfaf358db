// Package guest is the client of the helper inside a running instance.
//
// A [Conn] runs commands, starts processes that outlive the server, and opens network connections into and out of
// the instance. Package guesttest is its conformance suite. [Local] is the implementation for instances on this
// machine: the helper is the instance's pid 1 (package pid1) and listens on a Unix socket that only the host can see.
// File descriptors are sent with the messages (package wire), so the input and output of Run never pass through the
// helper. The output of a long-lived process goes into a spool (package spool) on the host's disk.
//
// All data from an instance is treated as hostile: exit codes, output, and the state of its files. The helper itself
// is trusted: other processes of the instance cannot change it.
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

// Errors of a Conn. Any other error means that the request to the helper failed.
var (
	ErrGone      = errors.New("the instance does not run")           // the helper has ended
	ErrNoProcess = errors.New("no such process")                     // no process was started with that id
	ErrExists    = errors.New("a process has that id")               // ids are never reused
	ErrTrimmed   = errors.New("that part of the output is gone")     // the offset is older than the spool's oldest
	ErrInvalid   = errors.New("invalid request")                     // the request had no effect
	ErrNoInput   = errors.New("the process takes no input any more") // it ended, or its input was closed
	ErrRefused   = errors.New("connection refused")                  // no process listens on that port inside
	ErrDiskFull  = errors.New("no space left for the output")        // the process was not started
)

// The users of an instance.
const (
	Agent = "agent" // uid 1000, no capabilities; the default
	Root  = "root"  // the instance's root user, with only the capabilities that package managers need
)

// Directories inside an instance.
const (
	Workspace = "/workspace"
	Home      = "/home/agent"
)

// Exit codes of commands that did not run to their end, as in a shell.
const (
	ExitTimeout   = 124
	ExitCannotRun = 126 // the file exists but cannot be executed
	ExitNotFound  = 127
)

// Conn is a connection to the helper of one instance. It is safe for concurrent use.
type Conn interface {
	// Run runs a command to its end. When ctx ends the command and its process group are killed and
	// the error is ctx's. A command that cannot be run is not an error: it exits with 126 or 127, and
	// Exit.Reason says why.
	Run(ctx context.Context, cmd Cmd, std Stdio) (Exit, error)

	// Start starts a process with an id that the caller chooses (1 to 64 of a-z, 0-9 and -). The process
	// outlives this connection and this server. Its output goes into its spool. A second Start with the
	// same id returns ErrExists, also after the process ended. If the command cannot be run, Start succeeds
	// and the process ends at once with exit code 126 or 127.
	Start(ctx context.Context, id string, cmd Cmd) error

	// Process returns a handle of the process with this id. It does not check that the process exists.
	Process(id string) Process

	// Processes lists the processes that Start started since the instance started. The list includes
	// processes that ended.
	Processes(ctx context.Context) ([]Status, error)

	// KillAll kills every process in the instance but the helper.
	KillAll(ctx context.Context) error

	// Dial connects to a port of the instance's loopback.
	Dial(ctx context.Context, port uint16) (net.Conn, error)

	// Listen listens on a port of the instance's loopback. The helper keeps the listener open: a second
	// Listen on the port, also by another server, returns a copy of the same listener, and Close closes
	// only the copy.
	Listen(ctx context.Context, port uint16) (net.Listener, error)

	// Ping checks that the helper answers.
	Ping(ctx context.Context) error

	Close() error
}

// Process is a process that was started with Start.
type Process interface {
	Status(ctx context.Context) (Status, error)

	// Output yields the output after the offset, waits for more, and ends after the chunk with the Exit.
	// The spool keeps output that this reader has not yet yielded, and a process that writes faster than
	// the reader reads has to wait, until the reader has made no progress for too long. An offset that
	// the spool no longer has yields ErrTrimmed. A negative offset means the oldest one in the spool.
	Output(ctx context.Context, after int64) iter.Seq2[Chunk, error]

	// Write writes to the input of a process whose Cmd set Input or Terminal. It waits while the process
	// does not read.
	Write(ctx context.Context, p []byte) (int, error)
	CloseInput(ctx context.Context) error

	// Resize sets the size of the process's terminal.
	Resize(ctx context.Context, size Size) error

	// Signal signals the process group. It returns ErrNoProcess if the process has ended.
	Signal(ctx context.Context, sig syscall.Signal) error
}

// Cmd is a command. Argv[0] is looked up in the PATH of Env unless it has a slash.
type Cmd struct {
	Argv []string
	Dir  string   // empty: the workspace
	Env  []string // the whole environment as NAME=value; only PATH, HOME and USER are added if missing
	User string   // empty: Agent

	// For Start only.
	Input    bool  // stdin is a pipe that Write fills; otherwise /dev/null
	Terminal *Size // give the process a terminal of this size; stdout and stderr are one stream; implies Input
	Keep     int64 // minimum bytes of output that the spool keeps, at most MostKept; zero: DefaultKeep
	Follow   bool  // the caller reads Output from the start at once: the spool keeps all output until then

	// Timeout is the time after which the helper kills the process's session, also without a connection
	// to a server; zero: never. Run ignores it: Run ends with its context.
	Timeout time.Duration
}

// DefaultKeep is the default of Cmd.Keep, and MostKept its maximum, in bytes. MostKept also bounds the output of all
// ended processes of an instance together: the spools of the oldest are removed first.
const (
	DefaultKeep = 16 << 20
	MostKept    = 256 << 20
)

// Size is a terminal's size in characters.
type Size struct{ Rows, Cols uint16 }

// Stdio holds the streams of a command. A nil Stdin is an empty input; a nil Stdout or Stderr drops the output.
// Copying ends shortly after the command: later output of its descendants is lost.
type Stdio struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Exit is the result of a command that ended.
type Exit struct {
	Code   int            // 128 + Signal if a signal ended the command, as in a shell
	Signal syscall.Signal // the signal that ended the command, or 0
	Reason string         // for codes 126 and 127, why the command could not be run; for 124, why it was killed
	Lost   bool           // the instance ended before the command; Code has no meaning
	At     time.Time
	CPU    time.Duration
	MaxRSS int64 // bytes
}

// Stream is the number of an output stream.
type Stream uint8

// The streams of a spool.
const (
	Stdout Stream = 1 // also the output of a terminal
	Stderr Stream = 2
)

// Chunk is a piece of output. Next is the offset after it: pass it to Output to continue.
type Chunk struct {
	Stream Stream
	Data   []byte
	Next   int64
	Exit   *Exit // on the last chunk, which has no Data
}

// Status describes a started process.
type Status struct {
	ID        string
	Argv      []string
	Terminal  bool
	StartedAt time.Time
	First     int64 // the oldest offset that can be read
	End       int64 // the offset after the newest byte
	Exit      *Exit // nil while the process runs
}
