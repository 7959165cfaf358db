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

// Output is Process.Output for an instance on this machine that may have ended. It reads the spools in the directory
// spools. An unknown process yields ErrNoProcess. The process waits at most patience for a reader that makes no
// progress; zero: 30 s.
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

// EndSpools records a Lost exit in the spools of processes that ran when their instance ended, and then removes the
// oldest spools. The caller has made sure that the instance's helper has ended.
func EndSpools(spools string) error {
	err := spool.Close(spools, wire.Exit{Lost: true, At: time.Now().UnixNano()})
	if pruned := spool.Prune(spools, mostSpools, MostKept); !errors.Is(pruned, spool.ErrNone) {
		err = errors.Join(err, pruned)
	}
	return err
}

// mostSpools is the number of spools that stay readable after their instance ended.
const mostSpools = 256
