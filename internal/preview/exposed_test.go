package preview_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/preview"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/exposetest"
)

// A URL that the provider refuses is renewed and the request sent again, unless that could repeat its effect.
func TestRefusedURLIsRenewed(t *testing.T) {
	testkit.Proves(t, "T3", "E4")
	for _, links := range []bool{false, true} {
		var got []string
		program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Method+" "+r.RequestURI)
			if r.Header.Get(exposetest.TokenHeader) != "" {
				t.Error("the program got the provider's token")
			}
			if r.URL.Path == "/none" {
				http.NotFound(w, r)
			}
		}))
		t.Cleanup(program.Close)
		port := netip.MustParseAddrPort(program.Listener.Addr().String()).Port()
		provider := exposetest.New(t)
		provider.LinksOnly = links
		f, err := fake.New(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Create(t.Context(), driver.Spec{Key: driver.Key{Sandbox: "s", Incarnation: 1}, Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		renewed := 0
		renew := func(ctx context.Context, _ driver.Exposure) (driver.Exposure, error) {
			renewed++
			return provider.For(f).Expose(ctx, st.ID, port, time.Hour)
		}
		first, err := provider.For(f).Expose(t.Context(), st.ID, port, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		x := preview.Exposed{At: first, Renew: renew}
		ask := func(method, path, body string) int {
			t.Helper()
			var content io.Reader
			if body != "" {
				content = strings.NewReader(body)
			}
			req, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://localhost:%d%s", port, path), content)
			if err != nil {
				t.Fatal(err)
			}
			res, err := x.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			return res.StatusCode
		}
		if code := ask(http.MethodGet, "/a%2Fb/?x=1", ""); code != http.StatusOK || renewed != 0 {
			t.Errorf("%d, renewed %d times", code, renewed)
		}
		provider.Revoke()
		if code := ask(http.MethodGet, "/after", ""); code != http.StatusOK || renewed != 1 {
			t.Errorf("a revoked URL answers %d, renewed %d times", code, renewed)
		}
		if code := ask(http.MethodPost, "/once", "body"); code != http.StatusUnauthorized || renewed != 2 {
			t.Errorf("a POST to a revoked URL answers %d, renewed %d times", code, renewed)
		}
		x.At.URL = "http://" + testkit.RefusingAddress(t)
		if code := ask(http.MethodPost, "/undelivered", ""); code != http.StatusOK {
			t.Errorf("a provider's machine that is gone: %d", code)
		}
		if code := ask(http.MethodGet, "/none", ""); code != http.StatusNotFound {
			t.Errorf("the program's own 404 is %d", code)
		}
		if want := "GET /a%2Fb/?x=1, GET /after, POST /undelivered, GET /none"; strings.ReplaceAll(strings.Join(got, ", "), "/a/b/", "/a%2Fb/") != want {
			t.Errorf("the program got %q", got)
		}
	}
}
