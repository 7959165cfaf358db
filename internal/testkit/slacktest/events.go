package slacktest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// envelope is an event or a click on its way to the app.
type envelope struct {
	id      string // of the event
	kind    string // events_api or interactive
	payload obj
	acked   int
	sent    int
}

// Delivery is what became of an event.
type Delivery struct {
	EventID     string
	Kind        string
	Type        string // of the event
	Sent, Acked int    // how many times
}

// Deliveries returns what became of all events.
func (t *Team) Deliveries() []Delivery {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	var all []Delivery
	for _, e := range t.envelopes {
		d := Delivery{EventID: e.id, Kind: e.kind, Sent: e.sent, Acked: e.acked}
		if inner, ok := e.payload["event"].(obj); ok {
			d.Type, _ = inner["type"].(string)
		}
		all = append(all, d)
	}
	return all
}

// SendTo makes the workspace send events and clicks to these addresses instead of Socket Mode. An empty address of
// clicks leaves them to Socket Mode.
func (t *Team) SendTo(events, clicks string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.requestURL, t.interactiveURL = events, clicks
}

// Verify sends the challenge that Slack sends to a new address, and returns an error unless it is answered.
func (t *Team) Verify(address string) error {
	body, _ := json.Marshal(obj{"type": "url_verification", "challenge": "challenge-" + t.ID, "token": "old"})
	status, text, err := t.post(t.server.ctx, address, "application/json", body, time.Now(), nil)
	if err == nil && (status != http.StatusOK || !strings.Contains(text, "challenge-"+t.ID)) {
		err = fmt.Errorf("answered %d %q", status, text)
	}
	return err
}

// Say posts a message as a person and announces it. An empty thread makes it a message of the channel.
func (t *Team) Say(user, channel, thread, text string, files ...string) (ts string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c := t.channels[channel]
	m := &Message{Channel: channel, ThreadTS: thread, User: user, Text: text, Files: files, Reactions: map[string][]string{}}
	if len(files) > 0 {
		m.Subtype = "file_share"
	}
	m.TS = t.server.ts()
	c.messages = append(c.messages, m)
	event := t.show(m, false)
	event["channel"], event["event_ts"] = channel, m.TS
	if c.im == "" && strings.Contains(text, "<@"+t.BotUser+">") {
		mention := obj{}
		for k, v := range event {
			mention[k] = v
		}
		mention["type"] = "app_mention"
		delete(mention, "subtype")
		t.emit(mention)
	}
	event["channel_type"] = c.kind()
	t.emit(event)
	return m.TS
}

// Edit changes a message as its author.
func (t *Team) Edit(channel, ts, text string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c := t.channels[channel]
	m := c.find(ts)
	before := t.show(m, false)
	m.Text = text
	now := t.server.ts()
	after := t.show(m, false)
	after["edited"] = obj{"user": m.User, "ts": now}
	t.emit(obj{"type": "message", "subtype": "message_changed", "channel": channel, "channel_type": c.kind(), "hidden": true, "ts": now, "event_ts": now, "message": after, "previous_message": before})
}

// Delete removes a message as its author.
func (t *Team) Delete(channel, ts string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c := t.channels[channel]
	t.remove(c, c.find(ts))
}

// Event announces any event.
func (t *Team) Event(event obj) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.emit(event)
}

// EventOf announces an event of another workspace to this one's app.
func (t *Team) EventOf(team string, event obj) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.emitOf(team, event)
}

// Click presses a button of a message.
func (t *Team) Click(user, channel, ts, action, value string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	m := t.channels[channel].find(ts)
	t.start(&envelope{id: t.server.id("click"), kind: "interactive", payload: obj{
		"type": "block_actions", "team": obj{"id": t.ID, "domain": t.ID}, "user": obj{"id": user, "team_id": t.ID}, "api_app_id": t.AppID,
		"container": obj{"type": "message", "message_ts": ts, "channel_id": channel, "thread_ts": m.ThreadTS, "is_ephemeral": false},
		"channel":   obj{"id": channel, "name": "channel"}, "message": t.show(m, false), "trigger_id": t.server.id("trigger"), "response_url": t.server.URL + "/response",
		"actions": []obj{{"type": "button", "action_id": action, "block_id": "b", "value": value, "action_ts": t.server.ts()}},
	}})
}

// Replay sends an event again that was sent before, with the same id.
func (t *Team) Replay(eventID string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	for _, e := range t.envelopes {
		if e.id == eventID {
			t.start(&envelope{id: e.id, kind: e.kind, payload: e.payload})
			return
		}
	}
}

// emit sends an event to the app. The lock must be held.
func (t *Team) emit(event obj) { t.emitOf(t.ID, event) }

func (t *Team) emitOf(team string, event obj) {
	id := t.server.id("Ev")
	t.start(&envelope{id: id, kind: "events_api", payload: obj{
		"token": "old", "team_id": team, "api_app_id": t.AppID, "event": event, "type": "event_callback", "event_id": id, "event_time": time.Now().Unix(),
		"authorizations": []obj{{"team_id": t.ID, "user_id": t.BotUser, "is_bot": true}},
	}})
}

// start delivers an envelope in the background. The lock must be held.
func (t *Team) start(e *envelope) {
	t.envelopes = append(t.envelopes, e)
	t.server.work.Go(func() { t.deliver(t.server.ctx, e) })
}

// deliver sends an envelope until the app acknowledges it.
func (t *Team) deliver(ctx context.Context, e *envelope) {
	for n := 0; ctx.Err() == nil; n++ {
		t.server.mu.Lock()
		address := t.requestURL
		if e.kind == "interactive" {
			address = t.interactiveURL
		}
		t.server.mu.Unlock()
		var done bool
		if address != "" {
			done = t.deliverHTTP(ctx, e, address, n)
		} else {
			done = t.deliverSocket(ctx, e, n)
		}
		if done {
			t.server.mu.Lock()
			e.acked++
			t.server.mu.Unlock()
			return
		}
		if n >= len(t.server.Retries) || e.kind == "interactive" {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(t.server.Retries[n]):
		}
	}
}

// deliverHTTP sends an envelope to the address of the app.
func (t *Team) deliverHTTP(ctx context.Context, e *envelope, address string, n int) bool {
	body, _ := json.Marshal(e.payload)
	kind := "application/json"
	if e.kind == "interactive" {
		body, kind = []byte(url.Values{"payload": {string(body)}}.Encode()), "application/x-www-form-urlencoded"
	}
	var retry http.Header
	if n > 0 {
		retry = http.Header{"X-Slack-Retry-Num": {strconv.Itoa(n)}, "X-Slack-Retry-Reason": {"http_timeout"}}
	}
	t.server.mu.Lock()
	e.sent++
	t.server.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, t.server.AckTime)
	defer cancel()
	status, _, err := t.post(ctx, address, kind, body, time.Now(), retry)
	return err == nil && status/100 == 2
}

// Post sends a signed request as Slack would have at a time, and returns the answer. Tests use it for requests that are
// old, forged or garbage.
func (t *Team) Post(address, contentType string, body []byte, at time.Time, change func(http.Header)) (status int, text string, err error) {
	h := http.Header{}
	if change != nil {
		t.Sign(h, body, at)
		change(h)
	}
	return t.post(t.server.ctx, address, contentType, body, at, h)
}

// Sign signs a body as Slack does.
func (t *Team) Sign(h http.Header, body []byte, at time.Time) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(t.SigningSecret))
	fmt.Fprintf(mac, "v0:%s:%s", stamp, body)
	h.Set("X-Slack-Request-Timestamp", stamp)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
}

func (t *Team) post(ctx context.Context, address, contentType string, body []byte, at time.Time, more http.Header) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
	t.Sign(r.Header, body, at)
	for name, values := range more {
		r.Header[name] = values
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}
