package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
)

func TestHealth(t *testing.T) {
	s := newSite(t)
	if got := into[api.Health](s.do(call{path: "/healthz"}).is(http.StatusOK)); got != (api.Health{Status: "ok", Version: "1.2.3"}) {
		t.Errorf("health %+v", got)
	}
	s.do(call{method: http.MethodHead, path: "/healthz"}).is(http.StatusOK)
}

func TestReadinessNamesWhatIsWrong(t *testing.T) {
	testkit.Proves(t, "X4")
	ready := into[api.Ready](newSite(t).do(call{path: "/readyz"}).is(http.StatusOK))
	if ready.Status != "ready" || ready.Version != "1.2.3" || len(ready.Checks) != 2 {
		t.Errorf("ready %+v", ready)
	}
	s := newSite(t)
	s.fake.On(fake.List).Fail(fake.ErrUnreachable)
	ready = into[api.Ready](s.do(call{path: "/readyz"}).is(http.StatusServiceUnavailable))
	if ready.Status != "not_ready" {
		t.Errorf("ready %+v", ready)
	}
	if c := ready.Checks[1]; c.Name != "driver fake" || c.Status != "failed" || c.Detail == "" || c.Fix == "" {
		t.Errorf("check %+v", c)
	}
	// From afar the names must do: the details hold addresses.
	far := into[api.Ready](s.do(call{path: "/readyz", header: map[string]string{"X-Forwarded-For": "203.0.113.9"}}).is(http.StatusServiceUnavailable))
	for _, c := range far.Checks {
		if c.Detail != "" || c.Fix != "" {
			t.Errorf("shown to a remote caller: %+v", c)
		}
	}
	s.Drain()
	if got := into[api.Ready](s.do(call{path: "/readyz"}).is(http.StatusServiceUnavailable)); got.Status != "draining" {
		t.Errorf("draining server says %q", got.Status)
	}
}

func TestMetricsNeedAKeyFromAfar(t *testing.T) {
	s := newSite(t)
	s.get(sandboxesPath).is(http.StatusOK)
	if a := s.do(call{path: "/metrics"}).is(http.StatusOK); !strings.Contains(string(a.body), "berth_http_requests_total") {
		t.Errorf("metrics: %.200s", a.body)
	}
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"} {
		s.do(call{path: "/metrics", header: map[string]string{header: "203.0.113.9"}}).fails(api.CodeUnauthenticated)
	}
	s.do(call{path: "/metrics", key: s.read, header: map[string]string{"Forwarded": "for=203.0.113.9"}}).is(http.StatusOK)
	far := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	far.Host, far.RemoteAddr = "localhost", "203.0.113.9:4711"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, far)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("from afar: status %d", w.Code)
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	s := newSite(t)
	s.do(call{path: "/api/v1/nothing"}).fails(api.CodeNoRoute)
	s.do(call{path: "/api/v2/sandboxes"}).fails(api.CodeNoRoute)
	for _, c := range []struct{ method, path, allow string }{
		{http.MethodPut, sandboxesPath, "GET, HEAD, POST"},
		{http.MethodPatch, sandboxesPath + "/x", "DELETE, GET, HEAD"},
		{http.MethodPost, "/healthz", "GET, HEAD"},
		{"BREW", "/healthz", "GET, HEAD"},
	} {
		a := s.do(call{method: c.method, path: c.path})
		a.fails(api.CodeMethodNotAllowed)
		if got := a.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, got, c.allow)
		}
	}
	if a := s.do(call{method: http.MethodOptions, path: sandboxesPath}).is(http.StatusNoContent); a.header.Get("Allow") != "GET, HEAD, POST, OPTIONS" || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("OPTIONS: %v", a.header)
	}
	s.do(call{method: http.MethodOptions, path: "/nothing"}).fails(api.CodeNoRoute)
	s.do(call{method: http.MethodHead, path: sandboxesPath, key: s.read}).is(http.StatusOK)
	s.do(call{path: sandboxesPath, host: "evil.test", key: s.read}).fails(api.CodeWrongHostHeader)
	s.do(call{method: http.MethodPost, path: sandboxesPath, key: s.write, body: "{}", header: map[string]string{"Origin": "https://evil.test"}}).fails(api.CodeForeignOrigin)
	s.do(call{path: "/api/v1/sandboxes/..%2f..%2fetc%2fpasswd", key: s.read}).fails(api.CodeInvalidPath)
	s.do(call{path: "/api/v1/../../etc/passwd", key: s.read}).fails(api.CodeInvalidPath)
	s.do(call{path: sandboxesPath + "/", key: s.read}).fails(api.CodeInvalidPath)
}
