package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

var errInterrupted = errors.New("interrupted")

// interrupts is what SIGINT and SIGTERM do: the first ends the command's context, and the second the
// process, as it would without us. A command that passes signals on takes them over.
type interrupts struct {
	mu    sync.Mutex
	taker chan os.Signal
}

// watch returns a context that ends with the first signal that nobody has taken over.
func (i *interrupts) watch() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for {
			select {
			case sig := <-signals:
				if i.pass(sig) {
					continue
				}
				signal.Stop(signals)
				cancel(errInterrupted)
			case <-ctx.Done():
			}
			return
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// pass hands the signal to who has taken it over, if anyone still listens.
func (i *interrupts) pass(sig os.Signal) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case i.taker <- sig: // nil, while nobody has taken them over, is never ready
		return true
	default:
		return false
	}
}

// take directs signals to the caller until it gives them back.
func (i *interrupts) take() (signals <-chan os.Signal, giveBack func()) {
	taker := make(chan os.Signal, 2)
	i.set(taker)
	return taker, func() { i.set(nil) }
}

func (i *interrupts) set(taker chan os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.taker = taker
}
