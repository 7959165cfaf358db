package api

import (
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"
)

// Command is what to run: a program with its arguments. In JSON a text stands for a line that a shell
// runs, and becomes the three words of Shell.
type Command []string

// CommandForm says in words what a command is, for those who sent something else.
const CommandForm = "a command is an array of at least one text, or one text for the shell"

// Shell is the command that a line of shell text stands for.
func Shell(line string) Command { return Command{"/bin/sh", "-c", line} }

// UnmarshalJSON reads an array of words, or a text for the shell.
func (c *Command) UnmarshalJSON(data []byte) error {
	var line string
	if json.Unmarshal(data, &line) == nil {
		*c = nil
		if line != "" {
			*c = Shell(line)
		}
		return nil
	}
	var words []string
	if err := json.Unmarshal(data, &words); err != nil {
		return errors.New(CommandForm)
	}
	*c = words
	return nil
}

// Exec asks to run a command in a sandbox. Without a command it asks to attach to the one of its ExecID.
type Exec struct {
	Command        Command           `json:"command,omitempty" doc:"Program and arguments, or a text that /bin/sh -c runs. Left out, a stream attaches to the command of exec_id, from after on"`
	Cwd            string            `json:"cwd,omitempty" maxLength:"4096" doc:"Where to run it; relative to /workspace, which it is if left out"`
	Env            map[string]string `json:"env,omitempty" doc:"Environment on top of the sandbox's; the same rules hold"`
	User           string            `json:"user,omitempty" enum:"agent,root" doc:"Whom to run it as; the template's user if left out"`
	TimeoutSeconds float64           `json:"timeout_seconds,omitempty" minimum:"0" doc:"Kill it after this time, with exit code 124. Zero is the server's maximum; a streamed command has none then"`
	Stdin          string            `json:"stdin,omitempty" doc:"Its input, as text"`
	StdinBase64    []byte            `json:"stdin_base64,omitempty" doc:"Its input, as bytes"`
	MaxOutputBytes int64             `json:"max_output_bytes,omitempty" minimum:"0" doc:"How much of each output a JSON answer holds: the first so many bytes; 1 MiB if left out"`

	// For commands that outlive the request: streamed ones.
	ExecID    string    `json:"exec_id,omitempty" maxLength:"64" doc:"Id to start it under, of a-z, 0-9 and '-'; one is made if left out. A command with an id is started once" pattern:"^[a-z0-9-]{1,64}$"`
	After     *int64    `json:"after,omitempty" minimum:"0" doc:"Without a command: the offset of the output of exec_id to read on from; 0, or left out, is the oldest that is kept"`
	Keep      int64     `json:"keep,omitempty" minimum:"0" doc:"How many bytes of output are kept for readers at least; 16 MiB if left out, 256 MiB at most"`
	OpenStdin bool      `json:"open_stdin,omitempty" doc:"Leave its input open for POST …/stdin; only streamed"`
	Terminal  *TermSize `json:"terminal,omitempty" doc:"Give it a terminal of this size; only streamed"`
}

// TermSize is the size of a terminal in characters.
type TermSize struct {
	Cols int `json:"cols" minimum:"1" maximum:"10000"`
	Rows int `json:"rows" minimum:"1" maximum:"10000"`
}

// ExecExit is how a command ended.
type ExecExit struct {
	ExitCode   int    `json:"exit_code" doc:"As in a shell: 124 timed out, 126 cannot be run, 127 not found, 128 and more a signal; -1 if it is lost"`
	Signal     string `json:"signal,omitempty" doc:"The signal that ended it, such as KILL"`
	Reason     string `json:"reason,omitempty" doc:"Why it was not run, or was killed"`
	Lost       bool   `json:"lost,omitempty" doc:"The instance ended first: how the command would have ended is unknown"`
	DurationMS int64  `json:"duration_ms" doc:"How long it ran; 0 if that is not known"`
}

// ExecResult is the answer of a command that ran to its end.
type ExecResult struct {
	ExecExit
	ExecID          string `json:"exec_id,omitempty" doc:"Its id, if it has one"`
	Stdout          string `json:"stdout"`
	Stderr          string `json:"stderr"`
	StdoutBase64    []byte `json:"stdout_base64,omitempty" doc:"Instead of stdout, where that is not UTF-8"`
	StderrBase64    []byte `json:"stderr_base64,omitempty" doc:"Instead of stderr, where that is not UTF-8"`
	StdoutTruncated bool   `json:"stdout_truncated,omitempty" doc:"It wrote more than is kept here"`
	StderrTruncated bool   `json:"stderr_truncated,omitempty" doc:"It wrote more than is kept here"`
	Notice          string `json:"notice,omitempty" doc:"What happened to the sandbox's files since its last use: which version was restored, and what is lost"`
}

// Output returns both outputs as bytes, however they came.
func (r ExecResult) Output() (stdout, stderr []byte) {
	return either(r.Stdout, r.StdoutBase64), either(r.Stderr, r.StderrBase64)
}

// SetOutput fills in both outputs, as text where they are.
func (r *ExecResult) SetOutput(stdout, stderr []byte) {
	r.Stdout, r.StdoutBase64 = asText(stdout)
	r.Stderr, r.StderrBase64 = asText(stderr)
}

func either(text string, raw []byte) []byte {
	if raw != nil {
		return raw
	}
	return []byte(text)
}

// asText returns the bytes as text, or as they are if they are none.
func asText(data []byte) (text string, raw []byte) {
	if utf8.Valid(data) {
		return string(data), nil
	}
	return "", data
}

// ExecStatus is one command that was started in the sandbox since it runs.
type ExecStatus struct {
	ExecID    string    `json:"exec_id"`
	Command   []string  `json:"command,omitempty"`
	Terminal  bool      `json:"terminal,omitempty"`
	Running   bool      `json:"running"`
	StartedAt time.Time `json:"started_at,omitzero"`
	First     int64     `json:"first" doc:"The oldest offset of its output that can be read"`
	End       int64     `json:"end" doc:"The offset behind the newest byte of its output"`
	Exit      *ExecExit `json:"exit,omitempty" doc:"How it ended, once it has"`
}

// The types of ExecEvent.
const (
	EventStarted = "started" // the first one
	EventStdout  = "stdout"  // a terminal's output, too
	EventStderr  = "stderr"
	EventDropped = "dropped" // the reader stood still for too long, and some output is gone: Dropped bytes before Next
	EventExit    = "exit"    // the last one
	EventError   = "error"   // the stream ends without the command's end; Error says why
)

// ExecEvent is one event of a command's stream.
type ExecEvent struct {
	Type   string `json:"type" enum:"started,stdout,stderr,dropped,exit,error"`
	ExecID string `json:"exec_id,omitempty" doc:"With started"`
	Notice string `json:"notice,omitempty" doc:"With started: what happened to the sandbox's files since its last use"`
	Text   string `json:"text,omitempty" doc:"What it wrote, if that is UTF-8"`
	Base64 []byte `json:"base64,omitempty" doc:"What it wrote, if not"`
	Next   int64  `json:"next,omitempty" doc:"The offset behind this event: give it as after to read on"`

	// Dropped is how much output the stream lacks.
	Dropped int64 `json:"dropped_bytes,omitempty" doc:"With dropped: how many bytes before next are gone, because the reader took none for too long. With exit: how many this stream lacks altogether"`

	*ExecExit          // with exit
	Error     *Problem `json:"error,omitempty" doc:"With error"`
}

// Data is what the command wrote.
func (e ExecEvent) Data() []byte { return either(e.Text, e.Base64) }

// SetData fills in what the command wrote, as text where it is.
func (e *ExecEvent) SetData(data []byte) { e.Text, e.Base64 = asText(data) }

// ExecSignal asks to signal a command and what it started.
type ExecSignal struct {
	Signal string `json:"signal" maxLength:"16" doc:"Such as INT, TERM or KILL" example:"INT"`
}

// ExecWritten says how much of an input the command has taken. The rest was not: send it again.
type ExecWritten struct {
	Written int64 `json:"written"`
}

// HeaderExecID is the header of a stream's answer that holds the command's id.
const HeaderExecID = "Berth-Exec-Id"
