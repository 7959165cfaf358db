package preview

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/driver"
)

// Exposed sends requests for a port to the URL at which the sandbox's provider serves it. The URL is a cache: if the
// provider refuses it, or cannot be reached, it is renewed. A request is sent again only if that cannot repeat its effect.
type Exposed struct {
	At    driver.Exposure
	Renew func(ctx context.Context, failed driver.Exposure) (driver.Exposure, error)
}

// through has the connections to providers.
var through = func() *http.Transport {
	t := newTransport(nil)
	t.DialContext = (&net.Dialer{Timeout: dialTime}).DialContext
	t.DisableKeepAlives, t.IdleConnTimeout, t.MaxIdleConnsPerHost = false, idleTime, mostIdle
	t.ForceAttemptHTTP2 = false
	return t
}()

// outdated lists the statuses with which a provider refuses a URL that has ended.
var outdated = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}

// RoundTrip implements http.RoundTripper.
func (x Exposed) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := send(r, x.At)
	if err == nil && !slices.Contains(outdated, res.StatusCode) || r.Context().Err() != nil {
		return res, err
	}
	now, failed := x.Renew(r.Context(), x.At)
	if failed != nil || now == x.At || !repeatable(r, err) {
		return res, err
	}
	if res != nil {
		_ = res.Body.Close()
	}
	return send(r, now)
}

// repeatable reports whether a request that got no answer, or a refusal, may be sent again.
func repeatable(r *http.Request, err error) bool {
	if r.Body != nil && r.Body != http.NoBody {
		return false
	}
	dial, is := errors.AsType[*net.OpError](err)
	return r.Method == http.MethodGet || r.Method == http.MethodHead || is && dial.Op == "dial"
}

// send sends a request to a port at a URL.
func send(r *http.Request, at driver.Exposure) (*http.Response, error) {
	base, err := url.Parse(at.URL)
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = base.Scheme, base.Host, base.Host
	if path := strings.TrimSuffix(base.EscapedPath(), "/"); path != "" {
		raw := path + out.URL.EscapedPath()
		out.URL.Path, out.URL.RawPath = strings.TrimSuffix(base.Path, "/")+out.URL.Path, raw
	}
	if base.RawQuery != "" {
		out.URL.RawQuery = strings.TrimSuffix(base.RawQuery+"&"+out.URL.RawQuery, "&")
	}
	if at.Token != "" {
		out.Header.Set(at.Header, at.Token)
	}
	return through.RoundTrip(out)
}
