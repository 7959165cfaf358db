package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/testkit"
)

func as(tenant string) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			exchangeOf(r.Context()).principal = auth.Principal{Tenant: tenant, KeyID: "k"}
			next.ServeHTTP(w, r)
		})
	}
}

func TestFloodOfOneTenantIsRefusedAndOthersAreNot(t *testing.T) {
	testkit.Proves(t, "E6")
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(10, 20)
		send := func(tenant string) answer {
			return through(t, httptest.NewRequest(http.MethodGet, "/x/1", nil), fine, as(tenant), l.limit)
		}
		for i := range 20 {
			a := send("flood").is(http.StatusOK)
			wait := 0
			if i == 19 {
				wait = 1
			}
			if got, want := a.header.Get("RateLimit"), fmt.Sprintf(`"tenant";r=%d;t=%d`, 19-i, wait); got != want {
				t.Errorf("request %d: RateLimit %q, want %q", i, got, want)
			}
		}
		refused := send("flood")
		p := refused.fails(api.CodeRateLimited)
		if !p.Retryable || refused.header.Get("Retry-After") != "1" || refused.header.Get("RateLimit-Policy") != `"tenant";q=20;w=2` {
			t.Errorf("headers %v", refused.header)
		}
		send("calm").is(http.StatusOK)
		time.Sleep(100 * time.Millisecond) // the bubble's clock
		send("flood").is(http.StatusOK)
		send("flood").fails(api.CodeRateLimited)
	})
}

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
		l := newLimiter(1, 5)
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

func TestOpenRoutesAndUnlimitedServersCountNothing(t *testing.T) {
	l := newLimiter(1, 1)
	for range 5 {
		through(t, httptest.NewRequest(http.MethodGet, "/x/1", nil), fine, l.limit).is(http.StatusOK)
	}
	s := newSite(t)
	for range 50 {
		if a := s.get(sandboxesPath).is(http.StatusOK); a.header.Get("RateLimit") != "" {
			t.Fatal("a server without a limit tells one")
		}
	}
	limited := newSite(t, func(o *Options) { o.Rate, o.Burst = 1, 2 })
	limited.get(sandboxesPath).is(http.StatusOK)
	limited.get(sandboxesPath).is(http.StatusOK)
	limited.get(sandboxesPath).fails(api.CodeRateLimited)
	limited.do(call{path: sandboxesPath, key: limited.newKey("other", api.ScopeRead)}).is(http.StatusOK)
}
