package rate_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest/rate"
	"github.com/berthdev/berth/internal/testkit"
)

// Endless output is moved at the rate, however large the pieces are. A burst comes first.
func TestOutputIsMovedAtTheRate(t *testing.T) {
	testkit.Proves(t, "E3")
	for _, piece := range []int{1 << 10, 64 << 10, 1 << 20} {
		var l rate.Limit
		start := time.Now()
		now, moved := start, 0
		for now.Sub(start) < 10*time.Second {
			moved += piece
			now = now.Add(l.Take(piece, now) + time.Microsecond)
		}
		if want := rate.Burst + 10*rate.PerSecond; moved < want*9/10 || moved > want*11/10 {
			t.Errorf("pieces of %d: %d MiB in 10 s, want about %d", piece, moved>>20, want>>20)
		}
	}
}

func TestABurstDoesNotWait(t *testing.T) {
	var l rate.Limit
	now := time.Now()
	for range 3 {
		for range rate.Burst / (64 << 10) {
			if pause := l.Take(64<<10, now); pause > 0 {
				t.Fatalf("a pause of %v", pause)
			}
		}
		if l.Take(1<<20, now) == 0 {
			t.Fatal("no pause after a burst")
		}
		now = now.Add(time.Minute)
	}
	if l.Take(1<<10, now.Add(-time.Hour)) > 2*time.Second {
		t.Error("a clock that was set back is waited for")
	}
}
