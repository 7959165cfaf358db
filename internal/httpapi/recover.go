package httpapi

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/telemetry"
)

// recoverPanic answers a panic with an internal problem and logs it with its stack. Where the answer
// had begun already, the connection is cut: half an answer must not look like a whole one.
func recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			x := exchangeOf(r.Context())
			switch {
			case p == http.ErrAbortHandler || x.broken != nil:
				panic(http.ErrAbortHandler) // the client is gone, or shall see that the answer is cut
			case x.status != 0:
				logPanic(r, p)
				panic(http.ErrAbortHandler)
			}
			logPanic(r, p)
			failWith(w, r, api.CodeInternal, hidden[api.CodeInternal])
		}()
		next.ServeHTTP(w, r)
	})
}

func logPanic(r *http.Request, p any) {
	x := exchangeOf(r.Context())
	x.log.ErrorContext(r.Context(), "request panicked", telemetry.FieldRequestID, x.id, "method", r.Method,
		"path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}
