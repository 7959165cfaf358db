package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestHandlerNeedsLittle(t *testing.T) {
	s := newSite(t)
	a := New(Options{Engine: s.Engine, Store: s.db, Keys: s.Keys})
	if a.MaxBodyBytes != 1<<20 || a.RequestTimeout != time.Minute || a.DeleteWait != 30*time.Second {
		t.Errorf("defaults %d, %v, %v", a.MaxBodyBytes, a.RequestTimeout, a.DeleteWait)
	}
	r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
