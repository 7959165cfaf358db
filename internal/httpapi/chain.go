package httpapi

import "net/http"

// middleware wraps a handler in one concern.
type middleware func(next http.Handler) http.Handler

// chain applies the middlewares so that a request meets them in the order they are listed.
func chain(h http.Handler, all ...middleware) http.Handler {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i] != nil {
			h = all[i](h)
		}
	}
	return h
}

// guard is a middleware that lets a request pass or refuses it with an error.
func guard(check func(r *http.Request) error) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := check(r); err != nil {
				fail(w, r, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
