package guest

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/spool"
	"github.com/berthdev/berth/internal/guest/wire"
)

// Start starts a process with this id.
func (l *Local) Start(ctx context.Context, id string, cmd Cmd) error {
	c, err := command(&cmd)
	if err != nil {
		return err
	}
	forget := func() {}
	if cmd.Follow && wire.ValidID(id) {
		forget = spool.Expect(l.opts.Spools, id, l.opts.Patience)
	}
	if _, err = l.ask(ctx, &wire.Request{Op: wire.OpStart, ID: id, Cmd: c}); err != nil {
		forget()
	}
	return err
}

// Processes lists the processes that Start started since the instance started, oldest first. Of ended processes it
// lists only the newest few hundred.
func (l *Local) Processes(ctx context.Context) ([]Status, error) {
	reply, err := l.ask(ctx, &wire.Request{Op: wire.OpList})
	if err != nil {
		return nil, err
	}
	list := make([]Status, 0, len(reply.Processes))
	for i := range reply.Processes {
		list = append(list, statusOf(&reply.Processes[i]))
	}
	slices.SortFunc(list, func(a, b Status) int { return a.StartedAt.Compare(b.StartedAt) })
	return list, nil
}

// Process returns a handle of the process with this id.
func (l *Local) Process(id string) Process { return &localProcess{l, id} }

type localProcess struct {
	local *Local
	id    string
}

func (p *localProcess) ask(ctx context.Context, r *wire.Request) (wire.Reply, error) {
	if !wire.ValidID(p.id) {
		return wire.Reply{}, ErrNoProcess
	}
	r.ID = p.id
	return p.local.ask(ctx, r)
}

func (p *localProcess) Status(ctx context.Context) (Status, error) {
	reply, err := p.ask(ctx, &wire.Request{Op: wire.OpStatus})
	if err != nil {
		return Status{}, err
	}
	if len(reply.Processes) != 1 {
		return Status{}, errReply
	}
	return statusOf(&reply.Processes[0]), nil
}

// Write gets a copy of the writing end of the process's input from the helper and closes it before it returns.
func (p *localProcess) Write(ctx context.Context, b []byte) (int, error) {
	if !wire.ValidID(p.id) {
		return 0, ErrNoProcess
	}
	input, err := p.local.file(ctx, &wire.Request{Op: wire.OpInput, ID: p.id}, "input")
	if err != nil {
		return 0, err
	}
	defer input.Close()
	stop := context.AfterFunc(ctx, func() { _ = input.SetWriteDeadline(time.Now()) })
	defer stop()
	n, err := input.Write(b)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EIO):
		return n, ErrNoInput
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return n, ctx.Err()
	}
	return n, err
}

func (p *localProcess) CloseInput(ctx context.Context) error {
	_, err := p.ask(ctx, &wire.Request{Op: wire.OpCloseInput})
	return err
}

func (p *localProcess) Resize(ctx context.Context, size Size) error {
	_, err := p.ask(ctx, &wire.Request{Op: wire.OpResize, Size: wire.Size{Rows: size.Rows, Cols: size.Cols}})
	return err
}

func (p *localProcess) Signal(ctx context.Context, sig syscall.Signal) error {
	if sig < 1 || sig > 64 {
		return ErrInvalid
	}
	_, err := p.ask(ctx, &wire.Request{Op: wire.OpSignal, Signal: uint8(sig)})
	return err
}
