package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"golang.org/x/time/rate"
)

// maxBuckets bounds how many tenants are remembered at once.
const maxBuckets = 10_000

// limiter gives every tenant its own bucket of requests, so that one tenant's flood is refused
// without slowing the others.
type limiter struct {
	perSecond, burst int
	most             int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newLimiter(perSecond, burst int) *limiter {
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

// makeRoom forgets the buckets that are full, which are as good as new ones. If that frees none, any
// one goes: its tenant gets a burst too many, which is better than memory without bound.
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

// limit is the middleware. Every answer says how much is left.
func (l *limiter) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := exchangeOf(r.Context()).principal.Tenant
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
		p := newProblem(api.CodeRateLimited, fmt.Sprintf("the tenant may send %d requests a second, and %d at once", l.perSecond, l.burst))
		p.headers.Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
		p.finish(r.Context()).write(w)
	})
}

// wait is how long until there is a token again, in whole seconds; zero while there are some.
func (l *limiter) wait(left float64, allowed bool) time.Duration {
	if allowed && left >= 1 {
		return 0
	}
	seconds := math.Ceil((1 - min(left, 1)) / float64(l.perSecond))
	return time.Duration(max(seconds, 1)) * time.Second
}
