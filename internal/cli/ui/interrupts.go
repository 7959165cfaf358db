package ui

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Interrupts handles SIGINT and SIGTERM. The first signal ends the command's context, and the second ends the process.
// A command that passes signals on takes them with Take.
type Interrupts struct {
	mu    sync.Mutex
	taker chan os.Signal
}

// Watch returns a context that ends with the first signal that no command has taken.
func (i *Interrupts) Watch() (context.Context, func()) {
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
				cancel(ErrInterrupted)
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

// pass sends the signal to the command that has taken the signals. It reports false if there is none.
func (i *Interrupts) pass(sig os.Signal) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case i.taker <- sig: // a nil channel is never ready
		return true
	default:
		return false
	}
}

// Take sends signals to the caller until giveBack is called.
func (i *Interrupts) Take() (signals <-chan os.Signal, giveBack func()) {
	taker := make(chan os.Signal, 2)
	i.set(taker)
	return taker, func() { i.set(nil) }
}

func (i *Interrupts) set(taker chan os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.taker = taker
}
