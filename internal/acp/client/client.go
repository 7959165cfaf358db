// Package client is the client of an agent that speaks the Agent Client Protocol (ACP), inside the sandbox: it is the
// process of a turn, and its output is the turn's output.
//
// A program that imports this package becomes the client if it is started under the path [Program] with the argument
// [Name]. The helper in a sandbox is such a program, so nothing has to be installed. init then runs the client instead
// of main, before most other packages of the program are initialised.
//
// The client reads a [Turn] from a file, starts the agent, makes or loads its session and sends it the prompt. It
// answers the agent's requests itself, so a turn goes on while no server runs. It prints [Line] values: the agent's
// texts and tool calls, and last its answer. An interrupt cancels the turn.
package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Program is the path inside a sandbox of the program that its helper runs.
const Program = "/proc/self/exe"

// Name is the first argument of a program that becomes the client. The id of the turn's process and the path of the
// file with the Turn follow it.
const Name = "berth-acp"

func init() {
	if len(os.Args) == 4 && os.Args[0] == Program && os.Args[1] == Name {
		os.Exit(Main(os.Args[2], os.Args[3]))
	}
}

// Turn is the work of a client.
type Turn struct {
	Command  []string          `json:"command"`
	Bin      string            `json:"bin,omitempty"` // a directory that is searched for programs before PATH
	Env      []string          `json:"env,omitempty"` // in addition to the client's own
	Defaults []Default         `json:"defaults,omitempty"`
	StateDir string            `json:"state_dir"` // the directory of the agent's state
	Files    map[string]string `json:"files,omitempty"`

	Session string `json:"session"` // Berth's id of the session
	Resume  bool   `json:"resume,omitempty"`
	Prompt  string `json:"prompt"`
	Fresh   string `json:"fresh,omitempty"` // the prompt for a session that is new, with the history

	Images  []Image  `json:"images,omitempty"` // go with the prompt if the agent takes images
	Calls   []Call   `json:"calls,omitempty"`  // requests before the prompt
	Servers []Server `json:"servers,omitempty"`
	Allow   Policy   `json:"allow"`
	QuietMS int      `json:"quiet_ms,omitempty"`
	Rename  *Rename  `json:"rename,omitempty"`
	Lingers bool     `json:"lingers,omitempty"`
	// Unreached is the exit code of an agent that the prompt has not reached; zero: it has no such code.
	Unreached int   `json:"unreached,omitempty"`
	Shape     Shape `json:"shape"`
}

// Default are variables for an agent with the key, unless the first of them is set; see profile.Default.
type Default struct {
	Key string   `json:"key"`
	Env []string `json:"env"`
}

// Image is a file in the sandbox.
type Image struct {
	Path      string `json:"path"`
	MediaType string `json:"media_type"`
}

// Call is a request about the session. Params are sent with the session's id.
type Call struct {
	Method string         `json:"method"`
	Params map[string]any `json:"params"`
	Must   bool           `json:"must,omitempty"` // the turn fails if the agent refuses it
}

// Server is an MCP server that uses its standard input and output.
type Server struct {
	Name    string     `json:"name"`
	Command string     `json:"command"`
	Args    []string   `json:"args"`
	Env     []Variable `json:"env"`
}

// Variable is an environment variable of a Server.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// The exit codes of the client. A client whose agent ended without an answer exits with the agent's code.
const (
	exitOK           = 0
	exitFailed       = 1
	exitNotInstalled = 127
	exitSignal       = 128 // and the number of the signal that ended the agent
)

// Main runs the turn in a file. The agent and everything that it starts has the environment variable BERTH_TURN with
// the value mark. Main returns the exit code.
func Main(mark, file string) int {
	runtime.LockOSThread() // the kernel ends the agent when the thread that started it ends
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	out := newPrinter(os.Stdout)
	defer out.flush()
	turn, err := readTurn(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	c := &client{turn: turn, out: out, signals: signals, env: environment(turn, mark)}
	return c.run()
}

// readTurn reads the turn and removes its file, which has the variables of MCP servers.
func readTurn(file string) (t Turn, err error) {
	raw, err := os.ReadFile(file)
	_ = os.Remove(file) // the server removes it later, if that fails
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err == nil && len(t.Command) == 0 {
		err = errors.New("it has no command")
	}
	if err != nil {
		return t, fmt.Errorf("read the turn: %w", err)
	}
	return t, nil
}

// client is a turn in progress.
type client struct {
	turn    Turn
	out     *printer
	env     []string
	signals <-chan os.Signal

	agent      *process
	calls      int  // requests so far
	resumes    bool // the agent can resume a session without repeating it
	seesImages bool // the agent takes images in prompts
	theirs     string
	model      string
	prompted   bool // the prompt was sent: the agent's updates belong to this turn
	cancelled  bool
	shaper     *shaper
}

// Errors that end a turn.
var (
	errCancelled = errors.New("the turn was cancelled")
	errStopped   = errors.New("the sandbox stops")
	errEnded     = errors.New("the agent ended")
	errNoSession = errors.New("the session is gone")
)

// run runs the turn and returns the exit code.
func (c *client) run() int {
	c.shaper = &shaper{Shape: c.turn.Shape, print: c.out.print}
	theirs := c.recall()
	if theirs == "" && c.turn.Resume {
		c.out.note(noteNoSession)
		return exitOK
	}
	if err := c.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	if c.turn.Rename != nil && theirs != "" {
		c.turn.Rename.apply(c.turn.StateDir, theirs)
	}
	path := findProgram(c.turn.Command[0], c.env)
	if path == "" {
		c.out.note(noteNotInstalled)
		return exitNotInstalled
	}
	var err error
	if c.agent, err = start(path, c.turn.Command, c.env); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return c.finish(c.converse(theirs))
}

// converse makes the session and sends the prompt. It returns after the answer.
func (c *client) converse(theirs string) error {
	if err := c.open(theirs); err != nil {
		return err
	}
	return c.prompt()
}

// stopTime is the time in which the signal of a sandbox that stops reaches all its processes.
const stopTime = time.Second

// stops reports whether the sandbox stops. Its processes are ended in any order, so the signal to this one may arrive a
// moment after the end of the agent.
func (c *client) stops() bool {
	limit := time.After(stopTime)
	for {
		select {
		case sig := <-c.signals:
			if sig != syscall.SIGINT {
				return true
			}
		case <-limit:
			return false
		}
	}
}

// finish ends the agent and returns the exit code.
func (c *client) finish(err error) int {
	if errors.Is(err, errEnded) && c.stops() {
		err = errStopped
	}
	if errors.Is(err, errStopped) || errors.Is(err, errCancelled) {
		c.settle()
	}
	c.shaper.end()
	c.out.flush()
	var refused *rpcError
	switch {
	case errors.Is(err, errNoSession):
		c.out.note(noteNoSession)
	case errors.Is(err, errStopped):
		c.agent.end(false)
		return exitSignal + int(syscall.SIGTERM)
	case c.cancelled:
		c.agent.end(false)
		c.out.note(noteCancelled)
		return exitOK
	case errors.As(err, &refused):
		c.out.print(Line{Type: LineError, Text: refused.Op, Answer: refused.raw()})
	case errors.Is(err, errEnded):
		code := c.agent.code()
		if code == c.turn.Unreached && code != exitOK {
			c.out.note(noteUnreached)
		}
		c.out.flush()
		return code
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		c.agent.end(false)
		return exitFailed
	}
	c.out.flush()
	c.agent.end(!c.turn.Lingers)
	return exitOK
}
