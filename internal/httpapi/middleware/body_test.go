package middleware

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// One tenant's requests hold a limited number of large bodies in memory. One that waits too long is refused; other
// tenants, and small bodies, do not wait; a handler that needs the body no longer gives its place back.
func TestLargeBodiesOfATenantAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, drop := make(chan struct{}), make(chan struct{})
		var inside atomic.Int64
		h := ReadBody(1 << 20)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			inside.Add(1)
			if r.Header.Get("Drops") != "" {
				<-drop
				exchange.Of(r.Context()).DropBody()
			}
			<-end
			w.WriteHeader(http.StatusNoContent)
		}))
		send := func(tenant string, size int, header ...string) chan int {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size)))
			for _, name := range header {
				r.Header.Set(name, "yes")
			}
			rec := httptest.NewRecorder()
			x := &exchange.Exchange{ResponseWriter: rec, Log: slog.New(slog.DiscardHandler), Clean: strings.Clone, Route: &exchange.Route{Bytes: true, MaxBody: 8 << 20}}
			x.Principal.Tenant = tenant
			done := make(chan int, 1)
			go func() {
				h.ServeHTTP(x, r.WithContext(exchange.With(r.Context(), x)))
				done <- rec.Code
			}()
			synctest.Wait()
			return done
		}
		send("a", largeBody, "Drops")
		for range mostLarge - 1 {
			send("a", largeBody)
		}
		refused := send("a", largeBody)
		if n := inside.Load(); n != mostLarge {
			t.Errorf("%d are under way, want %d", n, mostLarge)
		}
		send("a", 1<<10)
		send("b", largeBody)
		if n := inside.Load(); n != mostLarge+2 {
			t.Errorf("%d are under way, want %d", n, mostLarge+2)
		}
		if code := <-refused; code != api.CodeRateLimited.Info().Status {
			t.Errorf("the last one got %d", code)
		}
		waits := send("a", largeBody)
		close(drop)
		synctest.Wait()
		if n := inside.Load(); n != mostLarge+3 {
			t.Errorf("%d are under way, want %d", n, mostLarge+3)
		}
		close(end)
		if code := <-waits; code != http.StatusNoContent {
			t.Errorf("the one that waited got %d", code)
		}
	})
}
