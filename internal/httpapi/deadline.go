package httpapi

import (
	"context"
	"net/http"
	"time"
)

// limitTime gives every request a deadline: its route's, or else the server's. Handlers that run into
// it return the context's error, which becomes the problem timeout.
func limitTime(most time.Duration) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limit := most
			switch own := exchangeOf(r.Context()).route.Timeout; {
			case own == unlimited:
				_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // recorders have none
				next.ServeHTTP(w, r)
				return
			case own > 0:
				limit = own
			}
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}
