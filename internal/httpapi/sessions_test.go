package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// key makes a key of tenant acme and returns it with its id.
func (s *site) key(expires time.Time) (secret, id string) {
	s.t.Helper()
	secret = auth.Generate()
	k, err := s.db.In("acme").Keys().Create(s.t.Context(), store.Key{Prefix: auth.Prefix(secret), Scopes: []string{"write"}, ExpiresAt: expires}, auth.Hash(secret))
	if err != nil {
		s.t.Fatal(err)
	}
	return secret, k.ID
}

// endsWith waits for the last event of a stream.
func (w *watcher) endsWith(code api.Code) {
	w.t.Helper()
	text := ""
	for w.lines.Scan() {
		text += w.lines.Text() + "\n"
	}
	if !strings.Contains(text, `"code":"`+string(code)+`"`) {
		w.t.Errorf("the stream ended with %s", text)
	}
}

// A key that another server revokes is noticed by its record.
func TestStreamsEndWithTheirKey(t *testing.T) {
	testkit.Proves(t, "E2")
	w := newWorkshop(t)
	const endless = `{"command":"while :; do echo x; sleep 1; done"}`
	for name, end := range map[string]func(id string) error{
		"revoked here": func(id string) error {
			w.do(call{method: http.MethodDelete, path: keysPath + "/" + id, key: w.admin}).is(http.StatusNoContent)
			return nil
		},
		"revoked elsewhere": func(id string) error { _, err := w.db.In("acme").Keys().Revoke(t.Context(), id); return err },
	} {
		secret, id := w.key(time.Time{})
		stream := w.watch(http.MethodPost, w.box+"/exec", endless, "Authorization", "Bearer "+secret)
		ctx, cancel := context.WithTimeout(t.Context(), long)
		ws, _, err := websocket.Dial(ctx, w.server.URL+w.box+"/terminal?command=cat", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + secret}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := end(id); err != nil {
			t.Fatal(err)
		}
		stream.endsWith(api.CodeKeyRevoked)
		for err == nil {
			_, _, err = ws.Read(ctx)
		}
		if websocket.CloseStatus(err) != api.CloseKeyEnded || !strings.Contains(err.Error(), string(api.CodeKeyRevoked)) {
			t.Errorf("%s: the terminal ended with %v", name, err)
		}
		_ = ws.CloseNow()
		cancel()
		w.do(call{path: sandboxesPath, key: secret}).fails(api.CodeUnauthenticated)
	}
}

func TestStreamsEndWhenTheirKeyExpires(t *testing.T) {
	w := newWorkshop(t)
	secret, _ := w.key(time.Now().Add(3 * time.Second))
	w.watch(http.MethodPost, w.box+"/exec", `{"command":"while :; do echo x; sleep 1; done"}`, "Authorization", "Bearer "+secret).endsWith(api.CodeKeyExpired)
}

// A request that revokes its own key is answered.
func TestAKeyRevokesItself(t *testing.T) {
	s := newSite(t)
	keys := into[api.List[api.Key]](s.do(call{path: keysPath, key: s.admin}).is(http.StatusOK))
	for _, k := range keys.Items {
		if k.Scope == api.ScopeAdmin {
			s.do(call{method: http.MethodDelete, path: keysPath + "/" + k.ID, key: s.admin}).is(http.StatusNoContent)
		}
	}
	s.do(call{path: keysPath, key: s.admin}).fails(api.CodeUnauthenticated)
}

func TestABodyEndsWithItsKey(t *testing.T) {
	w := newWorkshop(t)
	secret, id := w.key(time.Time{})
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	body, more := io.Pipe()
	defer more.Close()
	reads := make(chan struct{}) // closed when the server reads the body, so after it has checked the key
	trace := &httptrace.ClientTrace{Got100Continue: func() { close(reads) }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, w.server.URL+sandboxesPath, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Expect", "100-continue")
	answered := make(chan answer, 1)
	go func() {
		res, err := client.Do(r)
		if err != nil {
			t.Error(err)
			close(answered)
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		answered <- answer{t, res.StatusCode, res.Header, text}
	}()
	if _, err := more.Write([]byte(`{"name":`)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reads:
	case a := <-answered:
		t.Fatalf("the request was answered before its body: %d %s", a.status, a.body)
	}
	if _, err := w.db.In("acme").Keys().Revoke(ctx, id); err != nil {
		t.Fatal(err)
	}
	if a, ok := <-answered; ok {
		a.fails(api.CodeKeyRevoked)
	}
	w.do(call{path: w.box, key: w.write}).is(http.StatusOK)
}
