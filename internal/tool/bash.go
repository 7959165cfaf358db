package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
)

// maxCommand is the maximum length of a command line in bytes. It is below the kernel's limit for one argument.
const maxCommand = 100_000

type bashArgs struct {
	Command string  `json:"command" jsonschema:"Command line for bash -c. A longer script: write it to a file and run that."`
	Cwd     string  `json:"cwd,omitempty" jsonschema:"Where to run it; /workspace if left out, and relative paths start there."`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"Seconds after which it is killed, with exit code 124."`
}

func bashTool() *Tool {
	return define(spec{
		name: "bash",
		description: "Run a command with bash in the sandbox, as its user, with no input. The answer has what it wrote to stdout, then stderr, " +
			"and its exit code if that is not 0. Of a long output the beginning and the end are shown; redirect it to a file and read that for more. " +
			"Each call is a new shell: directory and variables do not carry over. What runs in the background goes on, and its later output is lost.",
		aliases: map[string]string{"cmd": "command", "working_directory": "cwd", "timeout_seconds": "timeout"},
		limits: func(f map[string]*jsonschema.Schema) {
			long(f["command"], 1, maxCommand)
			long(f["cwd"], 0, 4096)
			between(f["timeout"], 0, MaxTime.Seconds(), CommandTime.Seconds())
		},
	}, bash)
}

// outputs is the structured content of a result: the two outputs of a command.
type outputs struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

func bash(ctx context.Context, j *job, in bashArgs) (api.ToolResult, error) {
	for name, text := range map[string]string{"command": in.Command, "cwd": in.Cwd} {
		if strings.ContainsRune(text, 0) {
			return api.ToolResult{}, wrong("arguments."+name, "expected a text without NUL")
		}
	}
	var stdout, stderr headTail
	exit, err := j.shell(ctx, guest.Cmd{Argv: []string{"bash", "-c", in.Command}, Dir: in.Cwd},
		commandTime(j.timeout, seconds(in.Timeout)), guest.Stdio{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return api.ToolResult{}, err
	}
	return ended(exit, &stdout, &stderr), nil
}

// shell runs a command for at most limit. The time starts when the sandbox runs.
func (j *job) shell(ctx context.Context, cmd guest.Cmd, limit time.Duration, std guest.Stdio) (guest.Exit, error) {
	conn, err := j.handle.GuestToRun(ctx)
	if err != nil {
		return guest.Exit{}, err
	}
	defer conn.Close()
	defer j.handle.HoldLate(ctx, "exec")()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTime)
	defer cancel()
	if cmd, err = j.handle.Command(ctx, cmd); err != nil {
		return guest.Exit{}, err
	}
	exit, err := conn.Run(ctx, cmd, std)
	if err == nil && exit.Code == guest.ExitNotFound && exit.Reason != "" { // an image without bash
		cmd.Argv[0] = "/bin/sh"
		exit, err = conn.Run(ctx, cmd, std)
	}
	if err != nil && overtime(ctx) {
		return guest.Exit{Code: guest.ExitTimeout, Reason: fmt.Sprintf("killed after %v", limit)}, nil
	}
	return exit, err
}

// commandTime returns the shortest of the requested times that are not zero, or CommandTime if there is none.
func commandTime(asked ...time.Duration) time.Duration {
	limit := time.Duration(0)
	for _, t := range asked {
		if t > 0 && (limit == 0 || t < limit) {
			limit = t
		}
	}
	if limit == 0 {
		return CommandTime
	}
	return limit
}

// ended returns the result of a command that ended or was killed after its time.
func ended(exit guest.Exit, stdout, stderr *headTail) api.ToolResult {
	forOut, forErr := share(stdout.size, stderr.size)
	out, cut := stdout.text(forOut)
	problems, cutToo := stderr.text(forErr)
	text := out
	if problems != "" {
		text = line(text) + "[stderr]\n" + problems
	}
	if cut || cutToo {
		text = line(text) + "(The output was too long to show all of it. Redirect it to a file and read that, or filter it.)"
	}
	if exit.Code != 0 {
		why := fmt.Sprintf("[exit code %d]", exit.Code)
		if exit.Reason != "" {
			why = fmt.Sprintf("[exit code %d: %s]", exit.Code, plain(fault.Clip(exit.Reason, notes/2)))
		}
		text = line(text) + why
	}
	if text == "" {
		text = "(no output)"
	}
	result := said(text)
	result.IsError, result.ExitCode, result.Truncated = exit.Code != 0, &exit.Code, cut || cutToo
	result.StructuredContent = outputs{out, problems}
	return result
}

// line appends a newline to a text if it does not end with one.
func line(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
