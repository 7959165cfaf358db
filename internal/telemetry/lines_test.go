package telemetry_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/berthdev/berth/internal/telemetry"
)

// gated is an output that holds its first write until it is opened.
type gated struct {
	open   chan struct{}
	mu     sync.Mutex
	writes []string
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = append(g.writes, string(p))
	return len(p), nil
}

// Callers that log during a slow write neither queue for a lock nor return before their line is written.
func TestLinesLoggedDuringAWriteAreWrittenTogether(t *testing.T) {
	const secret, callers = "swordfish-in-the-log", 64
	synctest.Test(t, func(t *testing.T) {
		out := &gated{open: make(chan struct{})}
		log := telemetry.NewLogger(out, "text", slog.LevelInfo, redactor(t, secret))
		var done sync.WaitGroup
		say := func(n int) {
			log.Info("said", "n", n, "with", secret)
			out.mu.Lock()
			defer out.mu.Unlock()
			if !strings.Contains(strings.Join(out.writes, ""), fmt.Sprintf("n=%d ", n)) {
				t.Errorf("line %d was not written when its call returned", n)
			}
		}
		done.Go(func() { say(0) })
		synctest.Wait()
		for n := 1; n <= callers; n++ {
			done.Go(func() { say(n) })
		}
		synctest.Wait()
		close(out.open)
		done.Wait()
		all := strings.Join(out.writes, "")
		if len(out.writes) != 2 || strings.Count(all, "\n") != callers+1 || strings.Contains(all, secret) {
			t.Errorf("%d writes, %d lines: %s", len(out.writes), strings.Count(all, "\n"), all)
		}
	})
}
