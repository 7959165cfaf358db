package middleware

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitIsToldInWholeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{perSecond: 1, burst: 1}
		for left, want := range map[float64]time.Duration{0: time.Second, 0.9: time.Second, 1: time.Second} {
			if got := l.wait(left, false); got != want {
				t.Errorf("%v tokens: %v, want %v", left, got, want)
			}
		}
	})
}

func TestTenantsRememberedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(1, 5)
		l.most = 3
		for _, tenant := range []string{"a", "b", "c"} {
			l.bucket(tenant).Allow()
		}
		l.bucket("d").Allow() // none is full: any one goes
		if len(l.buckets) != 3 || l.buckets["d"] == nil {
			t.Errorf("%d remembered, want 3 with the newest", len(l.buckets))
		}
		time.Sleep(time.Minute) // the bubble's clock: all are full again
		l.bucket("e")
		if len(l.buckets) != 1 {
			t.Errorf("%d remembered, want the new one alone", len(l.buckets))
		}
	})
}
