package guest

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/berthdev/berth/internal/guest/wire"
)

// codes maps the codes of the helper's replies to errors.
var codes = map[wire.Code]error{
	wire.NoProcess: ErrNoProcess,
	wire.Exists:    ErrExists,
	wire.Invalid:   ErrInvalid,
	wire.NoInput:   ErrNoInput,
	wire.Refused:   ErrRefused,
	wire.DiskFull:  ErrDiskFull,
}

func errorOf(r *wire.Reply) error {
	if r.Code == wire.OK {
		return nil
	}
	err := codes[r.Code]
	switch {
	case err == nil:
		return errors.New(r.Text)
	case r.Text == "":
		return err
	}
	return fmt.Errorf("%w: %s", err, r.Text)
}

func exitOf(x *wire.Exit) Exit {
	return Exit{
		Code: x.Code, Signal: syscall.Signal(x.Signal), Reason: x.Reason, Lost: x.Lost,
		At: time.Unix(0, x.At), CPU: time.Duration(x.CPU), MaxRSS: x.MaxRSS,
	}
}

func optionalExit(x *wire.Exit) *Exit {
	if x == nil {
		return nil
	}
	exit := exitOf(x)
	return &exit
}

func statusOf(p *wire.Process) Status {
	return Status{
		ID: p.ID, Argv: p.Argv, Terminal: p.Terminal, StartedAt: time.Unix(0, p.StartedAt),
		First: p.First, End: p.End, Exit: optionalExit(p.Exit),
	}
}

// command checks a Cmd and converts it to the form that is sent to the helper.
func command(c *Cmd) (wire.Cmd, error) {
	w := wire.Cmd{Argv: c.Argv, Env: c.Env, Dir: c.Dir, Root: c.User == Root, Input: c.Input, Keep: c.Keep, Timeout: int64(c.Timeout)}
	if c.Terminal != nil {
		w.Terminal = &wire.Size{Rows: c.Terminal.Rows, Cols: c.Terminal.Cols}
	}
	switch {
	case len(c.Argv) == 0:
		return w, fmt.Errorf("%w: no command", ErrInvalid)
	case c.User != "" && c.User != Agent && c.User != Root:
		return w, fmt.Errorf("%w: no user %q", ErrInvalid, c.User)
	case c.Keep < 0:
		return w, fmt.Errorf("%w: to keep %d bytes", ErrInvalid, c.Keep)
	case c.Timeout < 0:
		return w, fmt.Errorf("%w: a timeout of %s", ErrInvalid, c.Timeout)
	case c.Keep == 0:
		w.Keep = DefaultKeep
	}
	return w, nil
}
