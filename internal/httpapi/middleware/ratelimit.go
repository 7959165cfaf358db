package middleware

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// maxBuckets is the maximum number of tenants whose buckets are held in memory.
const maxBuckets = 10_000

// limiter limits the requests of each tenant with a separate token bucket, so that requests of one tenant do not slow
// the others.
type limiter struct {
	perSecond, burst int
	most             int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

// NewLimiter returns a limiter of each tenant's requests per second and at once.
func NewLimiter(perSecond, burst int) *limiter {
	return &limiter{perSecond: perSecond, burst: max(burst, perSecond), most: maxBuckets, buckets: map[string]*rate.Limiter{}}
}

// bucket returns the tenant's bucket.
func (l *limiter) bucket(tenant string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.buckets[tenant]
	if !ok {
		l.makeRoom()
		b = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
		l.buckets[tenant] = b
	}
	return b
}

// makeRoom removes full buckets, which equal new ones. If none is full, it removes any bucket: that tenant may then
// send one burst too many, but memory stays limited.
func (l *limiter) makeRoom() {
	if len(l.buckets) < l.most {
		return
	}
	for tenant, b := range l.buckets {
		if b.Tokens() >= float64(l.burst) {
			delete(l.buckets, tenant)
		}
	}
	for tenant := range l.buckets {
		if len(l.buckets) < l.most {
			return
		}
		delete(l.buckets, tenant)
	}
}

// Limit refuses requests above the limit. The headers of each answer report the remaining requests.
func (l *limiter) Limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := exchange.Of(r.Context()).Principal.Tenant
		if tenant == "" {
			next.ServeHTTP(w, r)
			return
		}
		b := l.bucket(tenant)
		allowed := b.Allow()
		left := max(b.Tokens(), 0)
		wait := l.wait(left, allowed)
		w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"tenant";q=%d;w=%d`, l.burst, max(1, l.burst/l.perSecond)))
		w.Header().Set("RateLimit", fmt.Sprintf(`"tenant";r=%d;t=%d`, int(left), int(wait.Seconds())))
		if allowed {
			next.ServeHTTP(w, r)
			return
		}
		p := exchange.NewProblem(api.CodeRateLimited, fmt.Sprintf("the tenant may send %d requests a second, and %d at once", l.perSecond, l.burst))
		p.Headers.Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
		p.Finish(r.Context()).Write(w)
	})
}

// wait returns the time until the next token, in whole seconds. It is zero while tokens are left.
func (l *limiter) wait(left float64, allowed bool) time.Duration {
	if allowed && left >= 1 {
		return 0
	}
	seconds := math.Ceil((1 - min(left, 1)) / float64(l.perSecond))
	return time.Duration(max(seconds, 1)) * time.Second
}
