package hook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/store"
)

// KindWebhook is the kind of webhooks' calls in the outbox.
const KindWebhook = "webhook"

// giveUpIn is how long a call is tried.
const giveUpIn = 3 * 24 * time.Hour

// callFor bounds one call, however slowly its receiver answers.
var callFor = 15 * time.Second

// Webhooks makes the calls of webhooks. They go through the outbox: a call is made until it is answered
// with success, or for three days.
type Webhooks struct {
	// Enqueue puts a call into the outbox.
	Enqueue func(ctx context.Context, tenant string, m store.Message) error
	// Of are the hooks of a template. Addresses and secrets are looked up when a call is made, and are not
	// in the outbox.
	Of func(template string) []Spec
}

// call is a webhook's call in the outbox.
type call struct {
	Template string          `json:"template"`
	Hook     string          `json:"hook"` // its key
	Body     json.RawMessage `json:"body"`
}

// key names a webhook within its template, however often the others are moved around.
func (s Spec) key() string {
	sum := sha256.Sum256([]byte(string(s.Phase) + "\x00" + s.URL))
	return hex.EncodeToString(sum[:12])
}

// enqueue puts the call into the outbox, under an id that is the same each time.
func (w *Webhooks) enqueue(ctx context.Context, spec Spec, d *Data) error {
	body, err := d.body(time.Now())
	if err != nil {
		return err
	}
	payload, err := json.Marshal(call{d.Sandbox.Template, spec.key(), body})
	if err != nil {
		return err
	}
	return w.Enqueue(ctx, d.Sandbox.Tenant, store.Message{ID: callID(spec, d), Kind: KindWebhook, Payload: payload})
}

// callID is the same for whatever is told again: a receiver that has seen it needs nothing more.
func callID(spec Spec, d *Data) string {
	about := d.about()
	if d.Phase == OnColdStart || d.Phase == OnTerminate {
		// Of each start there is one, and the sandbox ran before it since then, or never.
		about += fmt.Sprintf(".%d.%d", d.Sandbox.Incarnation, d.Record.StartedAt.UnixMicro())
	}
	sum := sha256.Sum256([]byte(string(d.Phase) + "\x00" + about + "\x00" + spec.key()))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// Deliver makes one call. It is the outbox's Deliver for KindWebhook.
func (w *Webhooks) Deliver(ctx context.Context, m store.Message) error {
	err := w.deliver(ctx, m)
	if err != nil && !errors.Is(err, outbox.ErrDrop) && time.Since(m.CreatedAt) > giveUpIn {
		return fmt.Errorf("%w: tried for three days: %w", outbox.ErrDrop, err)
	}
	return err
}

func (w *Webhooks) deliver(ctx context.Context, m store.Message) error {
	var c call
	if err := json.Unmarshal(m.Payload, &c); err != nil {
		return fmt.Errorf("%w: it cannot be read: %w", outbox.ErrDrop, err)
	}
	for _, spec := range w.Of(c.Template) {
		if spec.URL != "" && spec.key() == c.Hook {
			return post(ctx, spec, m.ID, c.Body)
		}
	}
	return fmt.Errorf("%w: template %s has no webhook of that phase and address any more", outbox.ErrDrop, c.Template)
}

// post makes the call. Only success within the time is success: a redirect is none, and is not followed.
func post(ctx context.Context, spec Spec, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, spec.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: its address cannot be used", outbox.ErrDrop)
	}
	now := time.Now()
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Berth-Webhook/1",
		headerID: id, headerTimestamp: strconv.FormatInt(now.Unix(), 10), headerSignature: sign(spec.Secret, id, now, body),
	} {
		request.Header.Set(name, value)
	}
	answer, err := caller(spec.AllowPrivate).Do(request)
	if err != nil {
		return fmt.Errorf("call %s: %w", request.URL.Host, plain(err))
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 500))
	switch {
	case answer.StatusCode == http.StatusGone:
		return fmt.Errorf("%w: %s wants no more of them (410)", outbox.ErrDrop, request.URL.Host)
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return fmt.Errorf("%s answered %s: redirects are not followed", request.URL.Host, answer.Status)
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return fmt.Errorf("%s answered %s: %s", request.URL.Host, answer.Status, oneLine(said))
	case err != nil:
		return fmt.Errorf("read the answer of %s: %w", request.URL.Host, plain(err))
	}
	return nil
}

// plain is a client's error without the address, which may hold a secret.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func oneLine(text []byte) string {
	return cmp.Or(strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "\uFFFD")), " "), "(nothing)")
}

// caller is a client for one call. It goes to public addresses alone, unless the hook allows others, and
// through no proxy: that would be asked to go where Berth itself would not.
func caller(allowPrivate bool) *http.Client {
	dial := egress.DialPublic
	if allowPrivate {
		dial = new(net.Dialer).DialContext
	}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 32 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
