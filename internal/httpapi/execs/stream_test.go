package execs

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// A stream says something even if its command does not.
func TestSilentStreamShowsThatItLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &handlers{Options: Options{Ending: t.Context()}}
		ctx, cancel := context.WithCancel(t.Context())
		var text strings.Builder
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			a.stream(&plainWriter{&text, http.Header{}}, r, &execution{h: silent{}.handle(), id: "x"}, followed{id: "x"})
		}()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		cancel()
		<-done
		if n := strings.Count(text.String(), ": berth\n\n"); n != 5 {
			t.Errorf("%d signs of life in a minute: %q", n, text.String())
		}
	})
}

// silent is a driver with one instance, whose command writes nothing.
type silent struct{ driver.Driver }

func (s silent) handle() *engine.Handle {
	e := engine.New(engine.Options{Drivers: map[string]driver.Driver{"silent": s}, Store: tooltest.Holds{N: new(atomic.Int64)}})
	return e.HandleAt(sandbox.Sandbox{State: sandbox.Running, Spec: sandbox.Spec{Driver: "silent"}}, "silent-1")
}

func (silent) Guest(context.Context, driver.ID) (guest.Conn, error) {
	return nil, driver.ErrUnsupported
}

func (silent) Output(ctx context.Context, _ driver.ID, _ string, _ int64) iter.Seq2[guest.Chunk, error] {
	return func(func(guest.Chunk, error) bool) { <-ctx.Done() }
}

// plainWriter is an answer that can be flushed, and no more.
type plainWriter struct {
	*strings.Builder
	header http.Header
}

func (w *plainWriter) Header() http.Header { return w.header }

func (w *plainWriter) WriteHeader(int) {}

func (w *plainWriter) Flush() {}
