package hook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// The example that the authors of standard-webhooks publish.
func TestSignatureVector(t *testing.T) {
	got := hook.Sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
}

// receiver is a webhook that remembers its calls and answers as the test sets.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []received
	answer func(w http.ResponseWriter, call int)
}

type received struct {
	id   string
	body []byte
}

func newReceiver(t *testing.T) *receiver {
	rec := &receiver{answer: func(http.ResponseWriter, int) {}}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seconds, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
		if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
			t.Errorf("timestamp %q", r.Header.Get("webhook-timestamp"))
		}
		id := r.Header.Get("webhook-id")
		if got := r.Header.Get("webhook-signature"); got != hook.Sign(secret, id, time.Unix(seconds, 0), body) {
			t.Errorf("signature %s", got)
		}
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s, %v", r.Method, r.Header)
		}
		rec.mu.Lock()
		rec.calls = append(rec.calls, received{id, body})
		n, answer := len(rec.calls), rec.answer
		rec.mu.Unlock()
		answer(w, n)
	}))
	t.Cleanup(rec.Close)
	return rec
}

// answers says how the receiver answers from now on.
func (r *receiver) answers(how func(w http.ResponseWriter, call int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = how
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.calls...)
}

// post office is an outbox over a real database in which a runner's webhooks go.
type postOffice struct {
	*outbox.Outbox
	db    *store.DB
	specs []hook.Spec
	log   *journal

	options hook.WebhookOptions
}

func withWebhooks(t *testing.T, r *testRunner, j *journal) *postOffice {
	db, err := store.Open(t.Context(), store.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	storetest.Unlock(t, db)
	o := &postOffice{Outbox: outbox.New(db.Outbox(), slog.New(slog.NewJSONHandler(j, nil))), db: db, specs: r.Of(""), log: j}
	o.options = hook.WebhookOptions{
		Of: func(string) []hook.Spec { return o.specs },
		Enqueue: func(ctx context.Context, tenant string, m store.Message) error {
			return db.In(store.TenantID(tenant)).Outgoing().Enqueue(ctx, m)
		},
	}
	r.Webhooks = hook.NewWebhooks(o.options)
	o.Register(hook.KindWebhook, r.Webhooks.Deliver)
	return o
}

func (o *postOffice) left(t *testing.T) []store.Message {
	t.Helper()
	left, _, err := o.db.In("acme").Outgoing().List(t.Context(), store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// deliver tries what there is once.
func (o *postOffice) deliver(t *testing.T, w *hook.Webhooks) error {
	t.Helper()
	claimed, err := o.db.Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: hook.KindWebhook, TTL: time.Minute})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%+v, %v", claimed, err)
	}
	return w.Deliver(t.Context(), claimed[0])
}

func webhook(phase hook.Phase, url string) hook.Spec {
	return hook.Spec{Phase: phase, URL: url, Secret: secret, AllowPrivate: true}
}

// A call is made until it succeeds, under one id, and the caller does not wait for it.
func TestWebhookIsCalledUntilItAnswers(t *testing.T) {
	testkit.Proves(t, "H4", "H6")
	rec := newReceiver(t)
	rec.answers(func(w http.ResponseWriter, call int) {
		if call < 3 {
			http.Error(w, "try\nagain", http.StatusServiceUnavailable)
		}
	})
	r, j := runner(webhook(hook.OnStreamFinish, rec.URL+"/hook"))
	o := withWebhooks(t, r, j)
	for range 2 { // again, as after a crash
		if warnings := r.StreamFinish(t.Context(), someData()); len(warnings) > 0 {
			t.Fatal(warnings)
		}
	}
	if left := o.left(t); len(left) != 1 || strings.Contains(string(left[0].Payload), secret) || strings.Contains(string(left[0].Payload), rec.URL) {
		t.Fatalf("%+v", left)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx) }()
	testkit.Eventually(t, time.Minute, func() error {
		if n := len(o.left(t)); n > 0 {
			return fmt.Errorf("%d calls are not made", n)
		}
		return nil
	})
	stop()
	<-done
	calls := rec.all()
	if len(calls) != 3 || calls[0].id != calls[2].id || !strings.HasPrefix(calls[0].id, "msg_") || string(calls[0].body) != string(calls[2].body) {
		t.Fatalf("%+v", calls)
	}
	var sent struct {
		Type      hook.Phase
		Timestamp time.Time
		Data      struct {
			TurnID string `json:"turn_id"`
			Usage  api.Usage
		}
	}
	if err := json.Unmarshal(calls[0].body, &sent); err != nil || sent.Type != hook.OnStreamFinish || sent.Data.TurnID != "turn" || sent.Data.Usage.InputTokens != 3 || time.Since(sent.Timestamp) > time.Hour {
		t.Errorf("%v: %s", err, calls[0].body)
	}
	if said := fmt.Sprint(j.entries(t, "deliver a message of the outbox; it is tried again")); !strings.Contains(said, "503 Service Unavailable: try again") {
		t.Error(said)
	}
}

// Each call has its own id, and a repeated call has the same one.
func TestIDsOfCalls(t *testing.T) {
	testkit.Proves(t, "H4")
	r, j := runner(webhook(hook.OnColdStart, "http://a.test/1"), webhook(hook.OnColdStart, "http://a.test/2"),
		webhook(hook.OnMessage, "http://a.test/1"), webhook(hook.OnTerminate, "http://a.test/1"))
	o := withWebhooks(t, r, j)
	s := someSandbox()
	for range 2 {
		for _, started := range []time.Time{{}, time.Unix(1700000000, 0)} {
			s.StartedAt = started
			if err := r.ColdStart(t.Context(), s, "i-1"); err != nil {
				t.Fatal(err)
			}
		}
		r.Message(t.Context(), someData())
		if err := r.Terminate(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if left := o.left(t); len(left) != 6 { // two starts at two webhooks, a message, an end
		t.Errorf("%d calls", len(left))
	}
}

func TestCallsThatDoNotSucceed(t *testing.T) {
	testkit.Proves(t, "X8", "H6")
	rec := newReceiver(t)
	elsewhere := newReceiver(t)
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, call int)
		said   string
		drop   bool
	}{
		"redirect": {func(w http.ResponseWriter, _ int) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "redirects are not followed", false},
		"refused": {func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusTeapot) }, "418 I'm a teapot: (nothing)", false},
		"gone":    {func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusGone) }, "wants no more of them", true},
		"drips":   {func(w http.ResponseWriter, _ int) { drip(w) }, "context deadline exceeded", false},
		"floods": {func(w http.ResponseWriter, _ int) {
			w.Header().Set("X", strings.Repeat("x", 100_000))
			w.WriteHeader(200)
		}, "server response headers exceeded", false},
		"hangs up": {func(http.ResponseWriter, int) { panic(http.ErrAbortHandler) }, "EOF", false},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "drips" {
				hook.SetCallFor(t, 300*time.Millisecond)
			}
			rec.answers(c.answer)
			r, j := runner(webhook(hook.OnMessage, rec.URL+"/secret-path"))
			o := withWebhooks(t, r, j)
			r.Message(t.Context(), someData())
			err := o.deliver(t, r.Webhooks)
			if err == nil || !strings.Contains(err.Error(), c.said) || errors.Is(err, outbox.ErrDrop) != c.drop || strings.Contains(err.Error(), "secret-path") {
				t.Error(err)
			}
		})
	}
	if n := len(elsewhere.all()); n > 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

// drip begins an answer and does not end it, until the caller is gone.
func drip(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Slow: ")
	_, _ = io.Copy(io.Discard, conn)
}

// Nothing inside is called, whatever it is called by, unless the hook says that it may be.
func TestWebhooksStayOutside(t *testing.T) {
	testkit.Proves(t, "E3")
	rec := newReceiver(t)
	_, port, _ := net.SplitHostPort(rec.Listener.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1", "127.1", "2130706433"} {
		spec := webhook(hook.OnMessage, "http://"+host+":"+port)
		spec.AllowPrivate = false
		r, j := runner(spec)
		o := withWebhooks(t, r, j)
		r.Message(t.Context(), someData())
		if err := o.deliver(t, r.Webhooks); err == nil {
			t.Errorf("%s was called", host)
		}
	}
	if n := len(rec.all()); n > 0 {
		t.Errorf("%d calls came through", n)
	}
}

func TestCallsAreGivenUp(t *testing.T) {
	rec := newReceiver(t)
	rec.answers(func(w http.ResponseWriter, _ int) { w.WriteHeader(500) })
	r, j := runner(webhook(hook.OnMessage, rec.URL))
	o := withWebhooks(t, r, j)
	r.Message(t.Context(), someData())
	claimed, err := o.db.Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: hook.KindWebhook, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m := claimed[0]
	for age, drop := range map[time.Duration]bool{71 * time.Hour: false, 73 * time.Hour: true} {
		m.CreatedAt = time.Now().Add(-age)
		if err := r.Webhooks.Deliver(t.Context(), m); err == nil || errors.Is(err, outbox.ErrDrop) != drop {
			t.Errorf("after %s: %v", age, err)
		}
	}
	o.specs = nil
	if err := r.Webhooks.Deliver(t.Context(), claimed[0]); !errors.Is(err, outbox.ErrDrop) || !strings.Contains(err.Error(), "has no webhook of that phase and address any more") {
		t.Error(err)
	}
	if err := r.Webhooks.Deliver(t.Context(), store.Message{Payload: []byte("{")}); !errors.Is(err, outbox.ErrDrop) {
		t.Error(err)
	}
}

// However long a message is, its event is short enough, says that it was cut, and is still JSON.
func TestLongMessagesAreCut(t *testing.T) {
	for name, text := range map[string]string{
		"plain": strings.Repeat("x", 1<<20), "escaped": strings.Repeat("\x01", 1<<20), "wide": strings.Repeat("€", 1<<18),
	} {
		rec := newReceiver(t)
		r, j := runner(webhook(hook.OnMessage, rec.URL))
		o := withWebhooks(t, r, j)
		d := someData()
		d.Message.Error = text
		d.Message.Content = []api.Block{
			{Type: api.BlockThinking, Text: text}, {Type: api.BlockText, Text: text},
			{Type: api.BlockToolUse, Input: json.RawMessage(`"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"`)},
		}
		r.Message(t.Context(), d)
		if err := o.deliver(t, r.Webhooks); err != nil {
			t.Fatal(err)
		}
		body := rec.all()[0].body
		var sent struct {
			Data struct {
				Message   api.Message
				Truncated bool
			}
		}
		if err := json.Unmarshal(body, &sent); err != nil || len(body) > 20_000 || !sent.Data.Truncated {
			t.Fatalf("%s: %d bytes, %v", name, len(body), err)
		}
		if m := sent.Data.Message; len(m.Content) != 1 || !m.Content[0].Truncated || m.Content[0].Text == "" || !strings.HasPrefix(text, m.Content[0].Text) {
			t.Errorf("%s: %.300s", name, body)
		}
	}
	if len(someData().Message.Content) != 1 {
		t.Error("the caller's message was cut")
	}
}

// A call that cannot be kept fails the hook.
func TestCallThatCannotBeKept(t *testing.T) {
	r, j := runner(webhook(hook.OnColdStart, "http://a.test"))
	o := withWebhooks(t, r, j)
	_ = o.db.Close()
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err == nil {
		t.Error("a start went on without its hook")
	}
	r.Webhooks = nil
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err == nil || !strings.Contains(err.Error(), "this server cannot run it") {
		t.Error(err)
	}
}
