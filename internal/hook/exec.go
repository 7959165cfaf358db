package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// maxKeptOutput is the number of bytes of a command's output that the sandbox keeps.
const maxKeptOutput = 64 << 10

// execute runs a command in the sandbox and waits for its end. The command outlives the server. The next server
// finds the command by its id and waits for it; it does not run the command again.
func execute(ctx context.Context, spec Spec, index int, d *Data, extra map[string]string) error {
	conn, err := d.Guest(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreached, err)
	}
	defer conn.Close()
	body, err := d.body(time.Now())
	if err != nil {
		return err
	}
	cmd, err := d.Command(ctx, guest.Cmd{
		Argv: spec.Command, Env: append(environment(d), pairs(extra)...), Input: true, Keep: maxKeptOutput, Follow: true, Timeout: spec.timeout(),
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreached, err)
	}
	id, err := startOrFind(ctx, conn, processID(spec, index, d), d.Phase, cmd)
	if err != nil {
		return err
	}
	p := conn.Process(id)
	// Write fails if the command has ended or its input is closed. The input is written again because the server
	// that started the command may have died before it wrote; the command may get the same line twice.
	if _, err := p.Write(ctx, append([]byte(sandbox.PublicIDs(string(body))), '\n')); err == nil {
		_ = p.CloseInput(ctx)
	}
	output, err := waitForEnd(ctx, p)
	if err != nil {
		return err
	}
	return d.accept(output)
}

// errUnreached marks an error of reaching the sandbox, as opposed to an error of the hook's command.
var errUnreached = errors.New("reach the sandbox")

// startOrFind starts the command, or finds the one that was started before, and returns its id.
func startOrFind(ctx context.Context, conn guest.Conn, id string, phase Phase, cmd guest.Cmd) (string, error) {
	if phase == OnColdStart {
		// Each start of an instance runs the command anew: startOrFind finds only a command of this start.
		var err error
		if id, err = processOfThisStart(ctx, conn, id); err != nil {
			return "", err
		}
	}
	err := conn.Start(ctx, id, cmd)
	switch {
	case errors.Is(err, guest.ErrInvalid):
		return "", fmt.Errorf("start the command: %w", err)
	case err != nil && !errors.Is(err, guest.ErrExists):
		return "", fmt.Errorf("%w: start the command: %w", errUnreached, err)
	}
	return id, nil
}

// processID returns the id of a hook's command. It depends on the hook and its subject (a message, a turn or a
// sandbox), so that every server computes the same id.
func processID(spec Spec, index int, d *Data) string {
	about := []string{string(d.Phase), d.about(), strconv.Itoa(index), strings.Join(spec.Command, "\x00")}
	sum := sha256.Sum256([]byte(strings.Join(about, "\x00\x00")))
	return "hook-" + hex.EncodeToString(sum[:10])
}

// processOfThisStart returns the id of the command with the prefix that was started since the instance started, or a
// new id.
func processOfThisStart(ctx context.Context, conn guest.Conn, prefix string) (string, error) {
	processes, err := conn.Processes(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: look for the command: %w", errUnreached, err)
	}
	for _, p := range processes {
		if strings.HasPrefix(p.ID, prefix+"-") {
			return p.ID, nil
		}
	}
	random := strings.ReplaceAll(store.NewID(), "-", "")
	return prefix + "-" + random[len(random)-12:], nil
}

// environment returns the variables that describe the event to a command.
func environment(d *Data) (env []string) {
	for _, v := range [][2]string{
		{"BERTH_HOOK_PHASE", string(d.Phase)},
		{"BERTH_SANDBOX_ID", sandbox.PublicID(d.Sandbox.ID)},
		{"BERTH_INCARNATION", strconv.FormatInt(d.Sandbox.Incarnation, 10)},
		{"BERTH_TEMPLATE", d.Sandbox.Template},
		{"BERTH_OWNER_KIND", d.Sandbox.Owner.Kind},
		{"BERTH_OWNER_ID", sandbox.PublicID(d.Sandbox.Owner.ID)},
		{"BERTH_CONVERSATION_ID", sandbox.PublicID(d.ConversationID)},
		{"BERTH_TURN_ID", d.TurnID},
		{"BERTH_MESSAGE_ID", d.Message.ID},
		{"BERTH_MESSAGE_ROLE", d.Message.Role},
		{"BERTH_TURN_STATUS", d.Status},
		{"BERTH_VERSION", d.Version},
	} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// waitForEnd waits for the command's end and returns its standard output. If the command failed, the error has its
// exit code and its last lines of output.
func waitForEnd(ctx context.Context, p guest.Process) (output []byte, err error) {
	last, out := tail{limit: maxTailBytes}, tail{limit: maxAnswerBytes}
	exit, err := follow(ctx, p, &last, &out)
	if err != nil {
		return nil, fmt.Errorf("%w: wait for the command: %w", errUnreached, err)
	}
	switch {
	case exit.Lost:
		return nil, errors.New("the sandbox ended while the command ran; it is not run again")
	case exit.Code == 0:
		return out.bytes(), nil
	}
	text := fmt.Sprintf("the command exited with %d", exit.Code)
	if exit.Reason != "" {
		text += " (" + exit.Reason + ")"
	}
	if output := last.lines(); output != "" {
		text += ": " + output
	}
	return nil, errors.New(text)
}

// follow reads the command's output to its end. If the next output is no longer kept, it continues with the oldest
// output that is.
func follow(ctx context.Context, p guest.Process, last, out *tail) (guest.Exit, error) {
	const oldest = -1
	for after := int64(oldest); ; {
		for chunk, err := range p.Output(ctx, after) {
			if errors.Is(err, guest.ErrTrimmed) {
				after = oldest
				break
			}
			if err != nil {
				return guest.Exit{}, err
			}
			if chunk.Exit != nil {
				return *chunk.Exit, nil
			}
			last.add(chunk.Data)
			if chunk.Stream == guest.Stdout {
				out.add(chunk.Data)
			}
			after = chunk.Next
		}
		if err := ctx.Err(); err != nil {
			return guest.Exit{}, err
		}
	}
}
