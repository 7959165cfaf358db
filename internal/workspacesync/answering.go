package workspacesync

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// pingOften is the interval at which a sync under a sandbox's lease asks whether the store still answers.
const pingOften = 2 * time.Second

var errSilent = errors.New("the object store stopped answering")

// whileAnswering calls do, and ends its context when the store stops answering the question ask: do holds a sandbox's lease, which
// everything else that changes the sandbox waits for, and the store's own timeouts and retries take minutes. A transfer
// that is only slow goes on.
func whileAnswering(ctx context.Context, ask, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchStore(ctx, ask, cancel)
	}()
	err := do(ctx)
	silent := errors.Is(context.Cause(ctx), errSilent)
	cancel(nil)
	<-watched
	if err != nil && silent {
		return fault.Errorf("sync workspace", api.CodeBlobUnreachable, "%w: %w", errSilent, err)
	}
	return err
}

// watchStore asks the store every pingOften, and calls cancel with errSilent when it does not answer.
func watchStore(ctx context.Context, ask func(context.Context) error, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(pingOften)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := ask(ctx); err != nil && ctx.Err() == nil {
			cancel(errSilent)
			return
		}
	}
}
