package preview_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/preview"
)

// answered returns the header of an answer of the sandbox, as a client of the host sees it.
func answered(t *testing.T, host string, sent, request http.Header) http.Header {
	t.Helper()
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range sent {
			w.Header()[name] = values
		}
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	defer inside.Close()
	r := httptest.NewRequest(http.MethodDelete, prefix+"/dir/page", nil)
	r.Host = host
	r.Header = request
	w := httptest.NewRecorder()
	preview.Proxy{
		Port: 3000, Prefix: prefix, Own: func(host string) bool { return host == "berth.example" || host == "10.0.0.7" },
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", inside.Listener.Addr().String())
		},
	}.ServeHTTP(w, r)
	return w.Result().Header
}

func TestReferencesNeverNameTheServer(t *testing.T) {
	const route = "/api/v1/sandboxes/victim"
	for _, c := range []struct{ host, sent, want string }{
		{"127.0.0.1:7070", "http://127.0.0.1:7070" + route, prefix + route},
		{"127.0.0.1:7070", "http://localhost:7070" + route, other("7070") + route},
		{"[::1]:7070", "http://[::1]:7070" + route, prefix + route},
		{"[::1]:7070", "http://[0:0::1]:7070" + route, prefix + route},
		{"berth.example", "https://berth.example" + route, prefix + route},
		{"berth.example", "https://BERTH.example.:443" + route, prefix + route},
		{"berth.example", "https://berth.example" + prefix + "/login?x=1", prefix + "/login?x=1"},
		{"berth.example", "https://berth.example:8443" + route, ""},
		{"berth.example", "https://x.berth.example" + route, ""},
		{"berth.example", "https://a.x.berth.example" + route, ""},
		{"127.0.0.1:7070", "https://berth.example" + route, ""},
		{"berth.example", "http://10.0.0.7:7070" + route, ""},
		{"berth.example", "http://[::ffff:10.0.0.7]:7070" + route, ""},
		{"named.test:7070", "http://named.test:9090" + route, ""},
		{"named.test:7070", "http://x.named.test" + route, ""},
		{"berth.example", "https://notberth.example" + route, "https://notberth.example" + route},
		{"berth.example", "https://berth.example.other.test/", "https://berth.example.other.test/"},
	} {
		h := answered(t, c.host, http.Header{"Location": {c.sent}, "Content-Location": {c.sent}, "Link": {"<" + c.sent + ">; rel=next"}}, nil)
		link := ""
		if c.want != "" {
			link = "<" + c.want + ">; rel=next"
		}
		if got := []string{h.Get("Location"), h.Get("Content-Location"), h.Get("Link")}; !slices.Equal(got, []string{c.want, c.want, link}) {
			t.Errorf("%s at %s became %q, want %q", c.sent, c.host, got, c.want)
		}
		if dropped := h.Get(preview.DroppedLocation) != ""; dropped != (c.want == "") {
			t.Errorf("%s at %s: %q", c.sent, c.host, h.Get(preview.DroppedLocation))
		}
	}
}

// Clients repeat headers on other sites too: most X-API-Key, some Authorization.
func TestARequestWithAKeyIsNotSentToOtherSites(t *testing.T) {
	sent := http.Header{"Location": {"https://evil.test/"}, "Link": {"<https://evil.test/>; rel=next"}}
	for name, value := range map[string]string{"Authorization": "Bearer x", "X-Api-Key": "x", "Sec-Websocket-Protocol": "chat, " + api.TerminalKeyProtocol + "x"} {
		h := answered(t, "berth.example", sent, http.Header{name: {value}})
		if h.Get("Location") != "" || h.Get("Link") != "" || !strings.Contains(h.Get(preview.DroppedLocation), "key") {
			t.Errorf("%s: %v", name, h)
		}
	}
}

func TestLinksAreRewrittenOneByOne(t *testing.T) {
	for sent, want := range map[string]string{
		`</app.js>; rel=preload; as=script`:                                  `<` + prefix + `/app.js>; rel=preload; as=script`,
		`<?page=2>; rel="next", <?page=9>; rel="last"`:                       `<` + prefix + `/dir/page?page=2>; rel="next", <` + prefix + `/dir/page?page=9>; rel="last"`,
		`</a>; title="x, <y>; \", z", <https://berth.example/b>; rel=next`:   `<` + prefix + `/a>; title="x, <y>; \", z", <` + prefix + `/b>; rel=next`,
		`<https://x.berth.example/>; rel=next, <https://cdn.test>; rel=icon`: `<https://cdn.test>; rel=icon`,
		`<//berth.example/b>; rel=next`:                                      ``,
		`<http://berth.example/b`:                                            ``,
		`http://berth.example/b; rel=next`:                                   ``,
		`</a>; rel=next, garbage, <https://berth.example:1/b>; rel=prefetch`: `<` + prefix + `/a>; rel=next`,
	} {
		if got := answered(t, "berth.example", http.Header{"Link": {sent}}, nil).Get("Link"); got != want {
			t.Errorf("%s became %s, want %s", sent, got, want)
		}
	}
}

// Trailers come behind the headers, which are all that is hardened.
func TestTrailersAreDropped(t *testing.T) {
	at := proxied(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Announced, Set-Cookie")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Announced", "1")
		w.Header().Set("Set-Cookie", "berth_session=forged")
		w.Header().Set(http.TrailerPrefix+"Clear-Site-Data", `"*"`)
	})
	res := get(t, at+"/")
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != "body" || len(res.Trailer) > 0 || res.Header.Get("Trailer") != "" {
		t.Errorf("%q, %v; trailers %v, header %v", body, err, res.Trailer, res.Header)
	}
}
