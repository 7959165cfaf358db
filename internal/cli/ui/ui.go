// Package ui implements the terminal of the command line: output, tables, prompts, progress, colours and errors.
//
// [UI] holds the streams and the global flags. [Show] prints lists as a table, as ids or as JSON. [Hint] and [Usage]
// make errors with a next step. Text from other sources must go through [Clean] before it is printed.
package ui

import (
	"io"
	"time"
)

// UI is the terminal of one command: its streams, the global flags and the clock.
type UI struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(string) (string, bool) // like os.LookupEnv
	Out, Err       Stream
	Now            func() time.Time
	Interrupts     Interrupts

	JSON  bool
	Quiet bool
	Yes   bool // ask no questions
	Wide  bool // print all columns and whole ids
}

// New returns a UI on three streams.
func New(stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) *UI {
	u := &UI{Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: env, Now: time.Now}
	u.Out, u.Err = u.newStream(stdout), u.newStream(stderr)
	u.Err.Writer = &serialWriter{to: stderr}
	return u
}

// Getenv returns the value of the variable, or the empty string if it is not set.
func (u *UI) Getenv(name string) string {
	value, _ := u.Env(name)
	return value
}
