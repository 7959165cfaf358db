package hook

import (
	"context"
	"errors"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// box is the instance that the hooks of one phase are about.
type box struct {
	runner *Runner
	record sandbox.Sandbox
	id     driver.ID
}

var errNoGuest = errors.New("the sandbox's driver cannot run commands")

func (b *box) guest(ctx context.Context) (guest.Conn, error) {
	d := b.runner.Drivers[b.record.Spec.Driver]
	if d == nil {
		return nil, errNoGuest
	}
	g, ok := driver.As[driver.Guester](d)
	if !ok {
		return nil, errNoGuest
	}
	return g.Guest(ctx, b.id)
}

func (b *box) command(cmd guest.Cmd) guest.Cmd {
	if b.runner.Command == nil {
		return cmd
	}
	return b.runner.Command(b.record, cmd)
}
