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
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/testkit"
)

func as(tenant string) middleware.Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			exchange.Of(r.Context()).Principal = auth.Principal{Tenant: tenant, KeyID: "k"}
			next.ServeHTTP(w, r)
		})
	}
}

func TestFloodOfOneTenantIsRefusedAndOthersAreNot(t *testing.T) {
	testkit.Proves(t, "E6")
	synctest.Test(t, func(t *testing.T) {
		l := middleware.NewLimiter(10, 20)
		send := func(tenant string) answer {
			return through(t, httptest.NewRequest(http.MethodGet, "/x/1", nil), fine, as(tenant), l.Limit)
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

func TestOpenRoutesAndUnlimitedServersCountNothing(t *testing.T) {
	l := middleware.NewLimiter(1, 1)
	for range 5 {
		through(t, httptest.NewRequest(http.MethodGet, "/x/1", nil), fine, l.Limit).is(http.StatusOK)
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
