package httpapi

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/testkit"
)

func TestBadBodies(t *testing.T) {
	testkit.Proves(t, "E1")
	s := newSite(t)
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	for _, c := range []struct {
		name, path, body string
		code             api.Code
		where, says      string // location of one of the errors, and part of the detail
	}{
		{"unknown field", sandboxesPath, `{"nmae":"x"}`, api.CodeInvalidRequest, "body.nmae", "no such field"},
		{"field in other letters", sandboxesPath, `{"Name":"x"}`, api.CodeInvalidRequest, "body.Name", "no such field"},
		{"wrong type", sandboxesPath, `{"name":7}`, api.CodeInvalidRequest, "body.name", "expected string"},
		{"number beyond all bounds", sandboxesPath, `{"name":1e999}`, api.CodeInvalidRequest, "body", "1e999"},
		{"wrong type inside", sandboxesPath, `{"env":{"A":1}}`, api.CodeInvalidRequest, "body.env.A", "expected string"},
		{"null for a map's value", sandboxesPath, `{"metadata":{"A":null}}`, api.CodeInvalidRequest, "body.metadata.A", "expected string"},
		{"list for an object", sandboxesPath, `[]`, api.CodeInvalidRequest, "body", "expected object"},
		{"null", sandboxesPath, `null`, api.CodeInvalidRequest, "body", "expected object"},
		{"field twice", sandboxesPath, `{"name":"a","name":"b"}`, api.CodeInvalidRequest, "body", "name is given twice"},
		{"field twice inside", sandboxesPath, `{"env":{"A":"1","A":"2"}}`, api.CodeInvalidRequest, "body", "env.A is given twice"},
		{"more after the value", sandboxesPath, `{"name":"a"}{"name":"b"}`, api.CodeInvalidRequest, "body", "after top-level value"},
		{"cut", sandboxesPath, `{"name":"a"`, api.CodeInvalidRequest, "body", "unexpected end"},
		{"no JSON", sandboxesPath, "{\n name}", api.CodeInvalidRequest, "body", "line 2, column 2"},
		{"deep", sandboxesPath, deep, api.CodeInvalidRequest, "body", "nested deeper"},
		{"NUL", sandboxesPath, `{"metadata":{"A":"x\u0000"}}`, api.CodeInvalidRequest, "body", "metadata.A holds a NUL"},
		{"NUL in a name", sandboxesPath, `{"metadata":{"A\u0000":"x"}}`, api.CodeInvalidRequest, "body", "NUL"},
		{"NUL in a list", agentsPath, `{"name":"a","overrides":{"l":["\u0000"]}}`, api.CodeInvalidRequest, "body", "overrides.l[0] holds a NUL"},
		{"not UTF-8", sandboxesPath, "{\"name\":\"\xff\"}", api.CodeInvalidRequest, "body", "UTF-8"},
		{"upper case name", sandboxesPath, `{"name":"Box"}`, api.CodeInvalidName, "", "name"},
		{"name like an id", sandboxesPath, `{"name":"01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"}`, api.CodeInvalidName, "", "looks like an id"},
		{"long name", sandboxesPath, `{"name":"` + strings.Repeat("x", 64) + `"}`, api.CodeInvalidName, "", "63"},
		{"id that is none", sandboxesPath, `{"id":"42"}`, api.CodeInvalidID, "", "UUID"},
		{"variable with a '='", sandboxesPath, `{"name":"x","env":{"A=B":"1"}}`, api.CodeInvalidRequest, "body.env", "A="},
		{"variable with a space", sandboxesPath, `{"name":"x","env":{"A B":"1"}}`, api.CodeInvalidRequest, "body.env", "digit first"},
		{"variable without a name", sandboxesPath, `{"name":"x","env":{"":"1"}}`, api.CodeInvalidRequest, "body.env", "no name"},
		{"large environment", sandboxesPath, `{"env":{"A":"` + strings.Repeat("x", 16<<10) + `"}}`, api.CodeInvalidRequest, "body.env", "16384 bytes"},
		{"large metadata", sandboxesPath, `{"metadata":{"a":"` + strings.Repeat("x", 16<<10) + `"}}`, api.CodeInvalidRequest, "body.metadata", "16384 bytes"},
		{"no name for an account", accountsPath, `{}`, api.CodeInvalidRequest, "body", "name"},
		{"empty name for an account", accountsPath, `{"name":""}`, api.CodeInvalidRequest, "body.name", "length"},
		{"account's name with an escape", accountsPath, `{"name":"a\u001b[2J"}`, api.CodeInvalidRequest, "body.name", "control characters"},
		{"account's address with a newline", accountsPath, `{"name":"a","email":"a\nb"}`, api.CodeInvalidRequest, "body.email", "control characters"},
		{"agent's name with a newline", agentsPath, `{"name":"a\nb"}`, api.CodeInvalidRequest, "body.name", "control characters"},
		{"key's label with a C1 control", keysPath, `{"label":"a\u009b"}`, api.CodeInvalidRequest, "body.label", "control characters"},
		{"scope that is none", keysPath, `{"scope":"root"}`, api.CodeInvalidRequest, "body.scope", "read, write, admin"},
		{"time that is none", keysPath, `{"expires_at":"tomorrow"}`, api.CodeInvalidRequest, "body.expires_at", "date-time"},
		{"time that is past", keysPath, `{"expires_at":"2001-01-01T00:00:00Z"}`, api.CodeInvalidRequest, "body.expires_at", "not past"},
		{"account that is none", keysPath, `{"account_id":"x"}`, api.CodeInvalidID, "", "UUID"},
		{"unknown account", keysPath, `{"account_id":"01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"}`, api.CodeNotFound, "", "account"},
		{"overrides that are no object", agentsPath, `{"name":"a","overrides":[]}`, api.CodeInvalidRequest, "body.overrides", "object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.post(c.path, c.body).fails(c.code)
			if !strings.Contains(p.Detail, c.says) {
				t.Errorf("detail %q does not say %q", p.Detail, c.says)
			}
			if c.where != "" && !slices.ContainsFunc(p.Errors, func(e api.FieldError) bool { return e.Location == c.where }) {
				t.Errorf("errors %+v, want one at %s", p.Errors, c.where)
			}
		})
	}
	if got := s.listNames(sandboxesPath); len(got) != 0 {
		t.Errorf("refused requests made %v", got)
	}
}

func TestBadReferencesAndQueries(t *testing.T) {
	s := newSite(t)
	cursorOf := func(c rest.Cursor) string { return c.String() }
	const id = "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"
	for path, code := range map[string]api.Code{
		sandboxesPath + "/" + id:                       api.CodeNotFound,
		sandboxesPath + "/no-such-name":                api.CodeNotFound,
		sandboxesPath + "/Not_A_Name":                  api.CodeInvalidID,
		sandboxesPath + "/~root":                       api.CodeInvalidID,
		sandboxesPath + "/" + strings.Repeat("x", 300): api.CodeInvalidID,
		sandboxesPath + "/Not_A_Name/history":          api.CodeInvalidID,
		sandboxesPath + "/no-such-name/history":        api.CodeNotFound,
		sandboxesPath + "/" + id + "/history":          api.CodeNotFound,
		accountsPath + "/x":                            api.CodeInvalidID,
		accountsPath + "/" + id:                        api.CodeNotFound,
		agentsPath + "/x":                              api.CodeInvalidID,
		agentsPath + "/" + id:                          api.CodeUnknownAgent,
		sandboxesPath + "?limit=0":                     api.CodeInvalidRequest,
		sandboxesPath + "?limit=501":                   api.CodeInvalidRequest,
		sandboxesPath + "?limit=-1":                    api.CodeInvalidRequest,
		sandboxesPath + "?limit=many":                  api.CodeInvalidRequest,
		sandboxesPath + "?limit=99999999999999999999":  api.CodeInvalidRequest,
		sandboxesPath + "?state=happy":                 api.CodeInvalidRequest,
		sandboxesPath + "?owner_kind=cat":              api.CodeInvalidRequest,
		sandboxesPath + "?sate=running":                api.CodeInvalidRequest,
		sandboxesPath + "?template=%00":                api.CodeInvalidRequest,
		sandboxesPath + "?template=%ff":                api.CodeInvalidRequest,
		sandboxesPath + "?template=%zz":                api.CodeInvalidRequest,
		sandboxesPath + "?a;b":                         api.CodeInvalidRequest,
		sandboxesPath + "?cursor=x":                    api.CodeInvalidCursor,
		sandboxesPath + "?cursor=!":                    api.CodeInvalidCursor,
		sandboxesPath + "?cursor=" + base64.RawURLEncoding.EncodeToString(make([]byte, 48)):              api.CodeInvalidCursor,
		sandboxesPath + "?cursor=" + cursorOf(rest.Cursor{List: "keys", At: 1, ID: id}):                  api.CodeInvalidCursor,
		sandboxesPath + "?cursor=" + cursorOf(rest.Cursor{List: "sandboxes", At: -1, ID: id}):            api.CodeInvalidCursor,
		sandboxesPath + "?cursor=" + cursorOf(rest.Cursor{List: "sandboxes", At: maxCursorTime, ID: id}): api.CodeInvalidCursor,
		sandboxesPath + "?cursor=" + cursorOf(rest.Cursor{List: "sandboxes", At: 1, ID: "x' or 1=1"}):    api.CodeInvalidCursor,
		sandboxesPath + "?cursor=" + strings.Repeat("A", 2000):                                           api.CodeInvalidRequest,
		accountsPath + "?cursor=x": api.CodeInvalidCursor,
		agentsPath + "?cursor=x":   api.CodeInvalidCursor,
	} {
		t.Run(strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			(answer{t, 0, nil, nil}).from(s.do(call{path: path, key: s.write})).fails(code)
		})
	}
	s.do(call{path: keysPath + "?cursor=x", key: s.admin}).fails(api.CodeInvalidCursor)
	s.do(call{path: keysPath + "/x", key: s.admin}).fails(api.CodeInvalidID)
	s.do(call{path: keysPath + "/" + id, key: s.admin}).fails(api.CodeNotFound)
	s.remove(keysPath + "/x").fails(api.CodeInvalidID)
	s.remove(accountsPath + "/x").fails(api.CodeInvalidID)
	s.remove(agentsPath + "/x").fails(api.CodeInvalidID)
	s.do(call{method: http.MethodPut, path: agentsPath + "/x", key: s.admin, body: `{"name":"a"}`}).fails(api.CodeInvalidID)
	s.do(call{method: http.MethodPut, path: agentsPath + "/" + id, key: s.admin, body: `{"name":"a\u0007"}`}).fails(api.CodeInvalidRequest)
	s.do(call{method: http.MethodPut, path: agentsPath + "/" + id, key: s.admin, body: `{"name":"a","overrides":3}`}).fails(api.CodeInvalidRequest)
}

// from reports the failures of another test's answer here.
func (a answer) from(b answer) answer { b.t = a.t; return b }

func TestLargeBodiesAreRefusedAtOnce(t *testing.T) {
	testkit.Proves(t, "E6")
	s := newSite(t)
	for _, c := range []struct {
		name string
		body io.Reader
	}{
		{"10 MB, known length", strings.NewReader(strings.Repeat("x", 10<<20))},
		{"10 MB, unknown length", io.MultiReader(strings.NewReader(`{"name":"`), strings.NewReader(strings.Repeat("x", 10<<20)))},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.server.URL+sandboxesPath, c.body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.write)
		r.Header.Set("Content-Type", "application/json")
		start := time.Now()
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		p := answer{t, res.StatusCode, res.Header, body}.fails(api.CodeBodyTooLarge)
		if !strings.Contains(p.Detail, "1048576") {
			t.Errorf("%s: detail %q does not say how much is allowed", c.name, p.Detail)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", c.name, took)
		}
	}
}

// A body that never ends is answered while it is still being sent.
func TestEndlessBodyIsCutOff(t *testing.T) {
	s := newSite(t)
	conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", sandboxesPath, s.write, 1<<30)
	_ = conn.SetDeadline(time.Now().Add(patience))
	start := time.Now()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	answer{t, res.StatusCode, res.Header, body}.fails(api.CodeBodyTooLarge)
	if took := time.Since(start); took > time.Second {
		t.Errorf("answered after %v, want at once", took)
	}
}

func TestBodyOfExactlyTheLimitPasses(t *testing.T) {
	s := newSite(t, func(o *Options) { o.MaxBodyBytes = 100 })
	body := `{"name":"box"}`
	s.post(sandboxesPath, body+strings.Repeat(" ", 100-len(body))).is(http.StatusCreated)
	s.post(sandboxesPath, body+strings.Repeat(" ", 101-len(body))).fails(api.CodeBodyTooLarge)
}

func TestBadContentTypes(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct{ header, value, says string }{
		{"Content-Type", "text/plain", "text/plain"},
		{"Content-Type", "application/x-www-form-urlencoded", "not JSON"},
		{"Content-Type", "multipart/form-data; boundary=x", "not JSON"},
		{"Content-Type", "text/plain;+json", "not JSON"},
		{"Content-Encoding", "gzip", "gzip"},
	} {
		p := s.do(call{method: http.MethodPost, path: sandboxesPath, key: s.write, body: `{"name":"x"}`, header: map[string]string{c.header: c.value}}).fails(api.CodeUnsupportedMedia)
		if !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s: %s: detail %q", c.header, c.value, p.Detail)
		}
	}
	for _, contentType := range []string{"application/json; charset=utf-8", "application/merge-patch+json"} {
		s.do(call{method: http.MethodPost, path: sandboxesPath, key: s.write, body: `{"name":"x"}`, header: map[string]string{"Content-Type": contentType, "Content-Encoding": "identity"}})
	}
	s.get(sandboxesPath + "/x").is(http.StatusOK)
}

func TestLargeHeadersAreRefused(t *testing.T) {
	s := newSite(t)
	start := time.Now()
	s.do(call{path: "/healthz", header: map[string]string{"X-Big": strings.Repeat("x", 100<<10)}}).fails(api.CodeHeadersTooLarge)
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	s.do(call{path: "/healthz", header: map[string]string{"X-Big": strings.Repeat("x", 20<<10)}}).is(http.StatusOK)
}

func TestBadKeys(t *testing.T) {
	s := newSite(t)
	revoked := into[api.NewKey](s.post(keysPath, `{"scope":"read"}`).is(http.StatusCreated))
	s.do(call{path: sandboxesPath, key: revoked.Secret}).is(http.StatusOK)
	s.remove(keysPath + "/" + revoked.ID).is(http.StatusNoContent)
	mistyped := []byte(s.read)
	mistyped[20] ^= 1
	for _, c := range []struct{ name, header, value, says string }{
		{"none", "X-Other", "", "no API key was sent"},
		{"revoked", "Authorization", "Bearer " + revoked.Secret, "revoked"},
		{"revoked", "X-API-Key", revoked.Secret, "revoked"},
		{"mistyped", "Authorization", "Bearer " + string(mistyped), ""},
		{"unknown", "Authorization", "Bearer " + strings.Repeat("k", 40), "not valid"},
		{"another scheme", "Authorization", "Basic " + s.read, "Bearer KEY"},
		{"no key after the scheme", "Authorization", "Bearer ", "Bearer KEY"},
		{"the key alone", "Authorization", s.read, "Bearer KEY"},
	} {
		a := s.do(call{path: sandboxesPath, header: map[string]string{c.header: c.value}})
		p := a.fails(api.CodeUnauthenticated)
		if !strings.Contains(p.Detail, c.says) || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: detail %q, WWW-Authenticate %q", c.name, p.Detail, a.header.Get("WWW-Authenticate"))
		}
	}
	for _, header := range []map[string]string{{"Authorization": "bearer  " + s.read}, {"X-API-Key": s.read}} {
		s.do(call{path: sandboxesPath, header: header}).is(http.StatusOK)
	}
}

// A database that goes away is an error that says so and may pass; it is never a wrong answer.
func TestDatabaseThatWentAway(t *testing.T) {
	s := newSite(t)
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []call{
		{path: sandboxesPath}, {path: sandboxesPath + "/box"}, {method: http.MethodDelete, path: sandboxesPath + "/box"},
		{method: http.MethodPost, path: sandboxesPath, body: `{"name":"x"}`}, {path: accountsPath}, {path: agentsPath},
	} {
		c.key = s.admin
		a := s.do(c)
		p := a.fails(api.CodeStoreUnavailable)
		if !p.Retryable || a.header.Get("Retry-After") == "" || strings.Contains(p.Detail, "sql") {
			t.Errorf("%s %s: %s", c.method, c.path, a.body)
		}
	}
	s.do(call{path: "/healthz"}).is(http.StatusOK)
	a := s.do(call{path: "/readyz"}).is(http.StatusServiceUnavailable)
	if ready := into[api.Ready](a); ready.Status != "not_ready" || ready.Checks[0].Status != "failed" || ready.Checks[0].Fix == "" {
		t.Errorf("ready %s", a.body)
	}
	if len(s.log.lines(t, "request failed")) == 0 {
		t.Error("the log does not say why")
	}
}

// The same, once the caller is known.
func TestDatabaseThatGoesAwayMidway(t *testing.T) {
	for _, c := range []call{
		{path: sandboxesPath}, {path: sandboxesPath + "/box"}, {path: sandboxesPath + "/box/history"},
		{path: sandboxesPath + "/01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10/history"}, {method: http.MethodDelete, path: sandboxesPath + "/box"},
		{path: keysPath}, {path: keysPath + "/01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"}, {method: http.MethodPost, path: keysPath, body: "{}"}, {method: http.MethodDelete, path: keysPath + "/01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"},
		{path: accountsPath}, {method: http.MethodPost, path: accountsPath, body: `{"name":"x"}`},
		{path: agentsPath}, {method: http.MethodPost, path: agentsPath, body: `{"name":"x"}`},
		{method: http.MethodPut, path: agentsPath + "/01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10", body: `{"name":"x"}`},
		{method: http.MethodPost, path: sandboxesPath, body: `{"name":"x"}`, header: map[string]string{idempotencyHeader: "k"}},
	} {
		t.Run(c.method+strings.ReplaceAll(c.path, "/", "_"), func(t *testing.T) {
			s := newSite(t)
			who, err := s.Keys.Authenticate(t.Context(), s.admin)
			if err != nil {
				t.Fatal(err)
			}
			opts := s.Options
			opts.Keys = known{who}
			s.server.Config.Handler = New(opts)
			if err := s.db.Close(); err != nil {
				t.Fatal(err)
			}
			c.key = s.admin
			s.do(c).fails(api.CodeStoreUnavailable)
		})
	}
}

// known authenticates every key as the same caller.
type known struct{ who auth.Principal }

func (k known) Authenticate(context.Context, string) (auth.Principal, error) { return k.who, nil }

// An answer is not much larger than what was asked, however many fields are wrong.
func TestErrorListsAreBounded(t *testing.T) {
	testkit.Proves(t, "E6")
	s := newToolshop(t)
	var fields strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&fields, `,"f%d":1`, i)
	}
	long := strings.Repeat("x", 500_000)
	for name, c := range map[string]struct{ path, body, want string }{
		"fields":          {sandboxesPath, `{"name":"a"` + fields.String() + `}`, "(and 49999 more)"},
		"a long field":    {sandboxesPath, `{"` + long + `":1}`, "there is no such field"},
		"entries":         {sandboxesPath, `{"metadata":[` + strings.Repeat("1,", 100_000) + `1]}`, "metadata"},
		"exec":            {sandboxesPath + "/none/exec", `{"command":"x"` + fields.String() + `}`, ""},
		"command":         {sandboxesPath + "/none/exec", `{"command":[` + strings.Repeat("1,", 100_000) + `1]}`, ""},
		"a tool":          {projectsPath + "/p/sandbox/execute", `{"tool_name":"bash","arguments":{"a":1` + fields.String() + `}}`, ""},
		"a long override": {agentsPath, `{"name":"a","overrides":{"` + long + `":1}}`, "overrides"},
		"agent override":  {agentsPath, `{"name":"a","overrides":{"a":1` + fields.String() + `}}`, "overrides"},
	} {
		a := s.post(c.path, c.body)
		if a.status < 400 || a.status >= 500 || len(a.body) > 64<<10 || !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s: %d with %d bytes: %.300s", name, a.status, len(a.body), a.body)
		}
	}
}
