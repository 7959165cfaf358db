package app_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// redirector answers every request with a redirect to the address in its query.
const redirector = `
	my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8080", Listen => 5, ReuseAddr => 1) or die; $| = 1; print "listening\n";
	while (my $c = $l->accept) {
		sysread($c, my $q, 8192);
		my ($to) = $q =~ /^\S+ [^?]*\?to=(\S+)/; $to =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
		syswrite($c, "HTTP/1.1 307 Temporary Redirect\r\nLocation: $to\r\nContent-Location: $to\r\nLink: <$to>; rel=next\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
		close $c;
	}`

// A client that asks a preview with its key follows redirects with its key. None leads it into the API.
func TestPreviewRedirectsNeverReachTheAPI(t *testing.T) {
	testkit.Proves(t, "E4")
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	if _, _, err := a.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "victim", Template: ""}); err != nil {
		t.Fatal(err)
	}
	a.await(a.spawn("box", api.Exec{Command: []string{"perl", "-MIO::Socket::INET", "-e", redirector}}), "listening")
	at, err := url.Parse(a.server.url)
	if err != nil {
		t.Fatal(err)
	}
	const route = "/api/v1/sandboxes/victim?sync=false"
	port := at.Port()
	for _, to := range []string{
		a.server.url + route, "http://localhost:" + port + route, "http://127.1:" + port + route, "http://0x7f000001:" + port + route, "http://2130706433:" + port + route,
		"http://127.0.0.1.:" + port + route, "http://[::ffff:127.0.0.1]:" + port + route, "http://0.0.0.0:" + port + route, "http://127.0.0.2:" + port + route,
		"//127.0.0.1:" + port + route, "///127.0.0.1:" + port + route, route, "../../../victim?sync=false", "../../../../../../.." + route,
		"/%2e%2e/%2e%2e/%2e%2e/victim?sync=false", "/.%2E/..%2f../victim?sync=false", `\\127.0.0.1:` + port + route, "http:" + route,
		"http://user@127.0.0.1:" + port + route, "HTTP://127.0.0.1:" + port + route,
	} {
		preview := a.server.url + "/api/v1/sandboxes/box/ports/8080/?to=" + url.QueryEscape(to)
		for name, value := range map[string]string{"Authorization": "Bearer " + testKey, "X-API-Key": testKey} {
			a.follow(preview, name, value)
			out, err := exec.CommandContext(t.Context(), "curl", "--silent", "--show-error", "--location", "--max-redirs", "5", "--max-time", "60",
				"--request", "DELETE", "--header", name+": "+value, preview).CombinedOutput()
			t.Logf("%s with %s: curl %q, %v", to, name, out, err)
			if _, err := a.Sandboxes.Get(t.Context(), "victim"); err != nil {
				t.Fatalf("a redirect to %s: %v", to, err)
			}
		}
	}
	a.works("box", 1)
}

// follow sends a DELETE as a Go program does.
func (a *arena) follow(address, name, value string) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, address, nil)
	if err != nil {
		a.Fatal(err)
	}
	r.Header.Set(name, value)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		if !strings.Contains(err.Error(), "stopped after 10 redirects") {
			a.Logf("%s: %v", address, err)
		}
		return
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
}

// A key is not sent on to another server either.
func TestPreviewRedirectsDoNotTakeTheKeyElsewhere(t *testing.T) {
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	a.await(a.spawn("box", api.Exec{Command: []string{"perl", "-MIO::Socket::INET", "-e", redirector}}), "listening")
	seen := make(chan string, 100)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization") + r.Header.Get("X-API-Key")
	}))
	defer elsewhere.Close()
	_, port, _ := strings.Cut(elsewhere.URL, "127.0.0.1:")
	for _, to := range []string{elsewhere.URL + "/", "http://localhost:" + port + "/", "http://127.0.0.9:" + port + "/"} {
		preview := a.server.url + "/api/v1/sandboxes/box/ports/8080/?to=" + url.QueryEscape(to)
		a.follow(preview, "Authorization", "Bearer "+testKey)
		a.follow(preview, "X-API-Key", testKey)
	}
	close(seen)
	for key := range seen {
		t.Errorf("another server was asked with %q", key)
	}
}
