package slack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// TestEventsAPI answers messages that arrive by the Events API, to any of two servers.
func TestEventsAPI(t *testing.T) {
	testkit.Proves(t, "T7")
	w := newWorld(t)
	one, two := w.start(nil), w.start(nil)
	if _, err := one.Connect(t.Context(), store.SlackWorkspace{Tenant: tenant, Tokens: store.SlackTokens{Bot: w.team.BotToken, Signing: w.team.SigningSecret}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	app := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n++; n%2 == 0 {
			two.ServeEvents(rw, r)
			return
		}
		one.ServeEvents(rw, r)
	}))
	t.Cleanup(app.Close)
	if err := w.team.Verify(app.URL); err != nil {
		t.Fatal(err)
	}
	w.team.SendTo(app.URL, app.URL)
	ts := w.mention("hello")
	w.settled("C1", ts, "white_check_mark")
	quiet(w)
	for _, d := range w.team.Deliveries() {
		w.team.Replay(d.EventID)
	}
	quiet(w)
	after := w.mention("again")
	w.settled("C1", after, "white_check_mark")
	w.one("C1", ts)
	w.team.Click("U1", "C1", w.one("C1", ts).TS, "berth_usage", w.turns.prompts()[0].Turn)
	testkit.Eventually(t, patience, func() error {
		if len(w.team.Ephemeral()) != 1 {
			return fmt.Errorf("the button is not answered")
		}
		return nil
	})
}

// TestForgedEvents checks that forged and old requests are refused and change nothing.
func TestForgedEvents(t *testing.T) {
	w, r := served(t)
	app := httptest.NewServer(http.HandlerFunc(r.ServeEvents))
	t.Cleanup(app.Close)
	ts := w.team.Say("U1", "C1", "", "not for the app")
	event := func(team string) []byte {
		body, err := json.Marshal(map[string]any{"type": "event_callback", "team_id": team, "event_id": "Ev1", "event": map[string]any{
			"type": "app_mention", "user": "U1", "channel": "C1", "ts": ts, "text": "<@" + w.team.BotUser + "> hi",
		}})
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	const kind = "application/json"
	for _, c := range []struct {
		name, kind string
		body       []byte
		at         time.Time
		change     func(http.Header)
		want       int
	}{
		{"unsigned", kind, event("T1"), time.Now(), func(h http.Header) { h["X-Slack-Signature"] = nil }, 401},
		{"wrong signature", kind, event("T1"), time.Now(), func(h http.Header) { h.Set("X-Slack-Signature", "v0="+strings.Repeat("0", 64)) }, 401},
		{"garbage as signature", kind, event("T1"), time.Now(), func(h http.Header) { h.Set("X-Slack-Signature", "x") }, 401},
		{"old", kind, event("T1"), time.Now().Add(-6 * time.Minute), nil, 401},
		{"from the future", kind, event("T1"), time.Now().Add(6 * time.Minute), nil, 401},
		{"no time", kind, event("T1"), time.Now(), func(h http.Header) { h.Set("X-Slack-Request-Timestamp", "now") }, 401},
		{"unknown team", kind, event("T2"), time.Now(), nil, 401},
		{"no team", kind, event(""), time.Now(), nil, 401},
		{"garbage", kind, []byte("{"), time.Now(), nil, 400},
		{"empty form", "application/x-www-form-urlencoded", nil, time.Now(), nil, 400},
		{"form of garbage", "application/x-www-form-urlencoded", []byte("payload=%7B"), time.Now(), nil, 401},
		{"too large", kind, make([]byte, 2<<20), time.Now(), nil, 413},
		{"forged challenge", kind, []byte(`{"type":"url_verification","challenge":"x"}`), time.Now(), func(h http.Header) { h["X-Slack-Signature"] = nil }, 401},
		{"unknown kind of event", kind, []byte(`{"type":"event_callback","team_id":"T1","event_id":"Ev2","event":{"type":"star_added"}}`), time.Now(), nil, 200},
		{"event of another form", kind, []byte(`{"type":"event_callback","team_id":"T1","event_id":"Ev3","event":[1]}`), time.Now(), nil, 200},
		{"clock four minutes off", kind, event("T1"), time.Now().Add(-4 * time.Minute), nil, 200},
	} {
		status, text, err := w.team.Post(app.URL, c.kind, c.body, c.at, c.change)
		if err != nil || status != c.want {
			t.Errorf("%s: %d %q, %v; want %d", c.name, status, text, err, c.want)
		}
		if c.want != 200 && len(w.turns.prompts()) > 0 {
			t.Fatalf("%s had an effect", c.name)
		}
	}
	w.taken(1) // of the one with the clock four minutes off
}

// TestConnectRefuses checks the errors for tokens that do not work.
func TestConnectRefuses(t *testing.T) {
	w := newWorld(t)
	r := w.start(nil)
	good := store.SlackTokens{Bot: w.team.BotToken, App: w.team.AppToken}
	for _, c := range []struct {
		name   string
		tokens store.SlackTokens
		want   string
	}{
		{"a user's token", store.SlackTokens{Bot: "xoxp-1", App: good.App}, "xoxb-"},
		{"neither way", store.SlackTokens{Bot: good.Bot}, "signing secret"},
		{"swapped", store.SlackTokens{Bot: good.Bot, App: good.Bot}, "xapp-"},
		{"unknown bot token", store.SlackTokens{Bot: "xoxb-no", App: good.App}, "invalid_auth"},
		{"unknown app token", store.SlackTokens{Bot: good.Bot, App: "xapp-no"}, "invalid_auth"},
	} {
		if _, err := r.Connect(t.Context(), store.SlackWorkspace{Tenant: tenant, Tokens: c.tokens}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := w.db.Tenants().Ensure(t.Context(), "other", "Other"); err != nil {
		t.Fatal(err)
	}
	w.connect(r)
	if _, err := r.Connect(t.Context(), store.SlackWorkspace{Tenant: "other", Tokens: good}); err == nil || !strings.Contains(err.Error(), "another tenant") {
		t.Errorf("another tenant took the workspace: %v", err)
	}
	if got, err := r.Check(t.Context(), tenant, "T1"); err != nil || got.Problem != "" || len(got.Missing) > 0 {
		t.Errorf("check: %+v, %v", got, err)
	}
	w.team.SetScopes("chat:write")
	if got, err := r.Check(t.Context(), tenant, "T1"); err != nil || !strings.Contains(got.Problem, "files:read") {
		t.Errorf("check without scopes: %+v, %v", got, err)
	}
	if _, err := r.Check(t.Context(), "other", "T1"); err == nil {
		t.Error("another tenant may look at the workspace")
	}
	if err := r.Disconnect(t.Context(), "other", "T1"); err == nil {
		t.Error("another tenant may remove the workspace")
	}
	if err := r.Disconnect(t.Context(), tenant, "T1"); err != nil {
		t.Error(err)
	}
}
