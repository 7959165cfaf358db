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
	"github.com/berthdev/berth/internal/store"
)

// keepOutput is how much of a command's output is kept.
const keepOutput = 64 << 10

// execute runs a command in the sandbox and waits for its end. The command outlives the server, and whoever
// comes to run it again finds it by its id: it is waited for, not run a second time.
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
	cmd := d.Command(guest.Cmd{
		Argv: spec.Command, Env: append(environment(d), pairs(extra)...), Input: true, Keep: keepOutput, Follow: true, Timeout: spec.timeout(),
	})
	id, err := started(ctx, conn, processID(spec, index, d), d.Phase, cmd)
	if err != nil {
		return err
	}
	p := conn.Process(id)
	// One that has ended, or was told already, takes no input any more. Whoever was about to tell it may have
	// died before; a line that comes twice is the same line.
	if _, err := p.Write(ctx, append(body, '\n')); err == nil {
		_ = p.CloseInput(ctx)
	}
	said, err := ended(ctx, p)
	if err != nil {
		return err
	}
	return d.accept(said)
}

// errUnreached is the cause of a failure that is not the hook's own: its command could not be run.
var errUnreached = errors.New("reach the sandbox")

// started starts the command, or finds the one that was started before, and returns its id.
func started(ctx context.Context, conn guest.Conn, id string, phase Phase, cmd guest.Cmd) (string, error) {
	if phase == OnColdStart {
		// Each start of an instance is another cold start: the one to be found is of this start.
		var err error
		if id, err = ofThisStart(ctx, conn, id); err != nil {
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

// processID names a command by the hook that it is and by what it runs once for. It is the same
// whichever server starts it.
func processID(spec Spec, index int, d *Data) string {
	about := []string{string(d.Phase), d.about(), strconv.Itoa(index), strings.Join(spec.Command, "\x00")}
	sum := sha256.Sum256([]byte(strings.Join(about, "\x00\x00")))
	return "hook-" + hex.EncodeToString(sum[:10])
}

// ofThisStart is the id of the command among what was started since the instance started, or a new one.
func ofThisStart(ctx context.Context, conn guest.Conn, prefix string) (string, error) {
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

// environment is what a command is told besides the event on its input.
func environment(d *Data) (env []string) {
	for _, v := range [][2]string{
		{"BERTH_HOOK_PHASE", string(d.Phase)},
		{"BERTH_SANDBOX_ID", d.Sandbox.ID},
		{"BERTH_INCARNATION", strconv.FormatInt(d.Sandbox.Incarnation, 10)},
		{"BERTH_TEMPLATE", d.Sandbox.Template},
		{"BERTH_OWNER_KIND", d.Sandbox.Owner.Kind},
		{"BERTH_OWNER_ID", d.Sandbox.Owner.ID},
		{"BERTH_CONVERSATION_ID", d.ConversationID},
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

// ended waits for the command's end and returns its standard output. How it ended, and the last lines that it
// wrote, is its error.
func ended(ctx context.Context, p guest.Process) (said []byte, err error) {
	last, out := tail{most: mostTail}, tail{most: mostAnswer}
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
	words := fmt.Sprintf("the command exited with %d", exit.Code)
	if exit.Reason != "" {
		words += " (" + exit.Reason + ")"
	}
	if said := last.lines(); said != "" {
		words += ": " + said
	}
	return nil, errors.New(words)
}

// follow reads the command's output to its end. What it writes faster than it is read is not missed.
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
