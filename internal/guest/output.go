package guest

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/berthdev/berth/internal/guest/spool"
	"github.com/berthdev/berth/internal/guest/wire"
)

func (p *localProcess) Output(ctx context.Context, after int64) iter.Seq2[Chunk, error] {
	return Output(ctx, p.local.opts.Spools, p.id, after, p.local.opts.Patience)
}

// Output reads what a process wrote from the spools of an instance on this machine, whether it runs or
// not. It is as Process.Output; an unknown process yields ErrNoProcess. The process waits for a reader that
// stands still for as long as its patience, 30 s if that is zero.
func Output(ctx context.Context, spools, id string, after int64, patience time.Duration) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if !wire.ValidID(id) {
			yield(Chunk{}, ErrNoProcess)
			return
		}
		for f, err := range spool.Follow(ctx, spools, id, after, patience) {
			if err != nil {
				yield(Chunk{}, spoolError(err))
				return
			}
			if !yield(Chunk{Stream: Stream(f.Stream), Data: f.Data, Next: f.Next, Exit: optionalExit(f.Exit)}, nil) {
				return
			}
		}
	}
}

func spoolError(err error) error {
	switch {
	case errors.Is(err, spool.ErrNone):
		return ErrNoProcess
	case errors.Is(err, spool.ErrTrimmed):
		return ErrTrimmed
	case errors.Is(err, spool.ErrBeyond):
		return ErrInvalid
	}
	return err
}

// EndSpools records the end of the processes that ran when an instance on this machine ended: their exit
// is Lost. It is for an instance whose helper is gone for sure. Of all its spools the newest stay.
func EndSpools(spools string) error {
	err := spool.Close(spools, wire.Exit{Lost: true, At: time.Now().UnixNano()})
	if pruned := spool.Prune(spools, mostSpools, MostKept); !errors.Is(pruned, spool.ErrNone) {
		err = errors.Join(err, pruned)
	}
	return err
}

// mostSpools is how many processes of an instance that ended can still be read.
const mostSpools = 256
