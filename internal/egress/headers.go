package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"
)

// Headers are the headers that services set on every request, outside the sandbox. They replace the headers with the
// same names that the sandbox sends. Set replaces them while the services run. The zero value has none.
type Headers struct {
	now atomic.Pointer[map[string]map[string]string]
}

// Set replaces all headers: the address inside, as 127.0.0.1:port → name → value. A service whose header has an empty
// value answers 503 instead of sending a request without it. Set reports whether that changed anything.
func (h *Headers) Set(all map[string]map[string]string) (changed bool) {
	before := h.now.Swap(&all)
	return before == nil || !maps.EqualFunc(*before, all, maps.Equal)
}

// all returns the headers of all services.
func (h *Headers) all() map[string]map[string]string {
	if now := h.now.Load(); now != nil {
		return *now
	}
	return nil
}

// MarshalJSON returns the headers as they are now.
func (h *Headers) MarshalJSON() ([]byte, error) { return json.Marshal(h.all()) }

// UnmarshalJSON sets the headers.
func (h *Headers) UnmarshalJSON(text []byte) error {
	var all map[string]map[string]string
	err := json.Unmarshal(text, &all)
	if err == nil {
		h.Set(all)
	}
	return err
}

func (h *Headers) of(inside string) map[string]string {
	if h == nil || h.now.Load() == nil {
		return nil
	}
	return (*h.now.Load())[inside]
}

// reservedHeaders are headers of the connection, or of the target of a request.
var reservedHeaders = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// CheckHeader returns an error for a name that a service cannot set.
func CheckHeader(name string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%q is no name of a header", name)
	case slices.Contains(reservedHeaders, textproto.CanonicalMIMEHeaderKey(name)):
		return fmt.Errorf("the header %s belongs to the connection", name)
	}
	return nil
}

// errNoValue and errBadValue are the errors of headers that cannot be sent. They do not contain the value.
var (
	errNoValue  = errors.New("its value is not set")
	errBadValue = errors.New("its value is not one line of text")
)

func checkValue(value string) error {
	switch {
	case value == "":
		return errNoValue
	case !httpguts.ValidHeaderFieldValue(value):
		return errBadValue
	}
	return nil
}

// requireHeaders answers requests of a service whose headers cannot be sent.
func (s *Service) requireHeaders(j *journal, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range s.Headers.of(s.inside()) {
			if err := checkValue(value); err != nil {
				missing := &refusal{
					status: http.StatusServiceUnavailable,
					words: fmt.Sprintf("the service behind %s sends the header %s, and %s.\nSet the secret that services of the sandbox's template name for it: berth secret set NAME",
						s.inside(), name, err),
					target: s.Upstream.Host,
					cause:  fmt.Sprintf("the header %s: %s", name, err),
				}
				j.refused(r.Context(), missing)
				missing.answer(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// setHeaders sets the headers of the service. A trailer with the name of one is dropped, because some upstreams merge
// trailers into headers. So is a header whose name differs only in having "_" for "-": some upstreams take both for the
// same.
func (s *Service) setHeaders(pr *httputil.ProxyRequest) {
	for name, value := range s.Headers.of(s.inside()) {
		for _, sent := range []http.Header{pr.Out.Header, pr.Out.Trailer} {
			for other := range sent {
				if strings.EqualFold(strings.ReplaceAll(other, "_", "-"), strings.ReplaceAll(name, "_", "-")) {
					delete(sent, other)
				}
			}
		}
		pr.Out.Header.Set(name, value)
	}
}
