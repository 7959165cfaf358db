package api

import (
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"
)

// Command is a program with its arguments. In JSON it is an array, or a text: a line for a shell, which becomes the
// three words of Shell.
type Command []string

// CommandForm describes the JSON forms of a Command, for error messages.
const CommandForm = "a command is an array of at least one text, or one text for the shell"

// Shell returns the command that runs a line of shell text.
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

// Exec is the request to run a command in a sandbox. Without a command, it attaches to the command with ExecID.
type Exec struct {
	Command        Command           `json:"command,omitempty" doc:"Program and arguments, or a command line for /bin/sh -c. Without a command, a stream attaches to the command of exec_id"`
	Cwd            string            `json:"cwd,omitempty" maxLength:"4096" doc:"The working directory, relative to /workspace; default: /workspace"`
	Env            map[string]string `json:"env,omitempty" doc:"Additional environment variables; the same rules as for sandboxes apply"`
	User           string            `json:"user,omitempty" enum:"agent,root" doc:"The user; default: the template's"`
	TimeoutSeconds float64           `json:"timeout_seconds,omitempty" minimum:"0" doc:"Timeout in seconds; a command that exceeds it is killed with exit code 124. Default: the server's maximum; for a streamed command none"`
	Stdin          string            `json:"stdin,omitempty" doc:"Standard input, as text"`
	StdinBase64    []byte            `json:"stdin_base64,omitempty" doc:"Standard input, in base64"`
	MaxOutputBytes int64             `json:"max_output_bytes,omitempty" minimum:"0" doc:"Maximum bytes of each output in a JSON answer; default: 1 MiB"`

	// The next fields are for streamed commands, which outlive the request.
	ExecID    string    `json:"exec_id,omitempty" maxLength:"64" doc:"The command's id, of a-z, 0-9 and '-'; default: a new one. A command with an id is started only once" pattern:"^[a-z0-9-]{1,64}$"`
	After     *int64    `json:"after,omitempty" minimum:"0" doc:"Without a command: the offset in the output of exec_id to continue from; default: the oldest stored output"`
	Keep      int64     `json:"keep,omitempty" minimum:"0" doc:"Minimum bytes of output to store for readers; default: 16 MiB, maximum: 256 MiB"`
	OpenStdin bool      `json:"open_stdin,omitempty" doc:"Keep standard input open for POST …/stdin; only for streams"`
	Terminal  *TermSize `json:"terminal,omitempty" doc:"Run it in a terminal of this size; only for streams"`
}

// TermSize is the size of a terminal in characters.
type TermSize struct {
	Cols int `json:"cols" minimum:"1" maximum:"10000"`
	Rows int `json:"rows" minimum:"1" maximum:"10000"`
}

// ExecExit describes the end of a command: its exit code, or the reason why there is none.
type ExecExit struct {
	ExitCode   int    `json:"exit_code" doc:"The exit code as in a shell: 124 timed out, 126 not executable, 127 not found, 128 + n killed by signal n; -1 if unknown"`
	Signal     string `json:"signal,omitempty" doc:"The signal that killed it, such as KILL"`
	Reason     string `json:"reason,omitempty" doc:"Why it did not run, or was killed"`
	Lost       bool   `json:"lost,omitempty" doc:"The instance ended before the command; the exit status is unknown"`
	DurationMS int64  `json:"duration_ms" doc:"Duration in milliseconds; 0 if unknown"`
}

// ExecResult is the result of a command that has ended.
type ExecResult struct {
	ExecExit
	ExecID          string `json:"exec_id,omitempty" doc:"The command's id, if it has one"`
	Stdout          string `json:"stdout"`
	Stderr          string `json:"stderr"`
	StdoutBase64    []byte `json:"stdout_base64,omitempty" doc:"Standard output in base64, if it is not valid UTF-8"`
	StderrBase64    []byte `json:"stderr_base64,omitempty" doc:"Standard error in base64, if it is not valid UTF-8"`
	StdoutTruncated bool   `json:"stdout_truncated,omitempty" doc:"The output is cut"`
	StderrTruncated bool   `json:"stderr_truncated,omitempty" doc:"The output is cut"`
	Notice          string `json:"notice,omitempty" doc:"Changes of the sandbox's files since its last use: the version that was restored, and lost changes"`
}

// Output returns both outputs as bytes, from the text or the base64 fields.
func (r ExecResult) Output() (stdout, stderr []byte) {
	return outputBytes(r.Stdout, r.StdoutBase64), outputBytes(r.Stderr, r.StderrBase64)
}

// SetOutput sets both outputs: as text if they are valid UTF-8, else in base64.
func (r *ExecResult) SetOutput(stdout, stderr []byte) {
	r.Stdout, r.StdoutBase64 = asText(stdout)
	r.Stderr, r.StderrBase64 = asText(stderr)
}

func outputBytes(text string, raw []byte) []byte {
	if raw != nil {
		return raw
	}
	return []byte(text)
}

// asText returns the bytes as text if they are valid UTF-8, else as raw bytes.
func asText(data []byte) (text string, raw []byte) {
	if utf8.Valid(data) {
		return string(data), nil
	}
	return "", data
}

// ExecStatus is the status of a command that was started since the sandbox's last start.
type ExecStatus struct {
	ExecID    string    `json:"exec_id"`
	Command   []string  `json:"command,omitempty"`
	Terminal  bool      `json:"terminal,omitempty"`
	Running   bool      `json:"running"`
	StartedAt time.Time `json:"started_at,omitzero"`
	First     int64     `json:"first" doc:"The offset of the oldest stored output"`
	End       int64     `json:"end" doc:"The offset after the newest output"`
	Exit      *ExecExit `json:"exit,omitempty" doc:"The exit status, if it has ended"`
}

// The types of ExecEvent.
const (
	EventStarted = "started" // the first event
	EventStdout  = "stdout"  // also the output of a terminal
	EventStderr  = "stderr"
	EventDropped = "dropped" // some output was lost because the reader was too slow: Dropped bytes before Next
	EventExit    = "exit"    // the last event
	EventError   = "error"   // the stream ended before the command did; Error has the reason
)

// ExecEvent is one event of a command's stream.
type ExecEvent struct {
	Type   string `json:"type" enum:"started,stdout,stderr,dropped,exit,error"`
	ExecID string `json:"exec_id,omitempty" doc:"With started: the command's id"`
	Notice string `json:"notice,omitempty" doc:"With started: changes of the sandbox's files since its last use"`
	Text   string `json:"text,omitempty" doc:"The output, if it is valid UTF-8"`
	Base64 []byte `json:"base64,omitempty" doc:"The output in base64, if it is not valid UTF-8"`
	Next   int64  `json:"next,omitempty" doc:"The offset after this event; send it as after to continue"`

	// Dropped is the number of bytes of output that the stream lost.
	Dropped int64 `json:"dropped_bytes,omitempty" doc:"With dropped: number of lost bytes before next. With exit: number of bytes that this stream lost in total"`

	*ExecExit          // with exit
	Error     *Problem `json:"error,omitempty" doc:"With error: the problem"`
}

// Data returns the output of the event as bytes.
func (e ExecEvent) Data() []byte { return outputBytes(e.Text, e.Base64) }

// SetData sets the output: as text if it is valid UTF-8, else in base64.
func (e *ExecEvent) SetData(data []byte) { e.Text, e.Base64 = asText(data) }

// ExecSignal is the request to signal a command and the processes that it started.
type ExecSignal struct {
	Signal string `json:"signal" maxLength:"16" doc:"The signal's name, such as INT, TERM or KILL" example:"INT"`
}

// ExecWritten is the number of bytes of an input that the command has taken. The client must send the rest again.
type ExecWritten struct {
	Written int64 `json:"written"`
}

// HeaderExecID is the header of a stream's answer that holds the command's id.
const HeaderExecID = "Berth-Exec-Id"
