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
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// KindWebhook is the kind of webhook calls in the outbox.
const KindWebhook = "webhook"

// giveUpAfter is the age of a call after which it is not retried.
const giveUpAfter = 3 * 24 * time.Hour

// callTimeout limits the duration of one call.
var callTimeout = 15 * time.Second

// WebhookOptions configures Webhooks.
type WebhookOptions struct {
	// Enqueue puts a call into the outbox.
	Enqueue func(ctx context.Context, tenant string, m store.Message) error
	// Of returns the hooks of a template. URLs and secrets are looked up when a call is made; the outbox does not
	// contain them.
	Of func(template string) []Spec
	// Answered removes a call from the outbox and stores the values of its answer, in one transaction. It returns
	// fault.ErrStale if another server has done so. Nil: answers are not read.
	Answered func(ctx context.Context, m store.Message, d *Data) error
	Log      *slog.Logger // nil: answers that cannot be used are not logged
}

// Webhooks calls webhooks through the outbox. A call is retried until it succeeds, for at most three days.
type Webhooks struct{ opts WebhookOptions }

// NewWebhooks returns the webhooks of a server.
func NewWebhooks(o WebhookOptions) *Webhooks { return &Webhooks{o} }

// call is the outbox payload of a webhook call.
type call struct {
	Template string          `json:"template"`
	Hook     string          `json:"hook"` // key of the webhook's Spec
	Body     json.RawMessage `json:"body"`
}

// key identifies a webhook in its template. It does not depend on the order of the hooks.
func (s Spec) key() string {
	sum := sha256.Sum256([]byte(string(s.Phase) + "\x00" + s.URL))
	return hex.EncodeToString(sum[:12])
}

// enqueue puts the call into the outbox. A repeated event has the same id.
func (w *Webhooks) enqueue(ctx context.Context, spec Spec, d *Data) error {
	body, err := d.body(time.Now())
	if err != nil {
		return err
	}
	payload, err := json.Marshal(call{d.Sandbox.Template, spec.key(), body})
	if err != nil {
		return err
	}
	return w.opts.Enqueue(ctx, d.Sandbox.Tenant, store.Message{ID: callID(spec, d), Kind: KindWebhook, Payload: payload})
}

// callID returns the id of a call. A repeated call has the same id, so that a receiver can ignore it.
func callID(spec Spec, d *Data) string {
	about := d.about()
	if d.Phase == OnColdStart || d.Phase == OnTerminate {
		// Each start and end has its own id: StartedAt is the time of the last start that succeeded, or zero.
		about += fmt.Sprintf(".%d.%d", d.Sandbox.Incarnation, d.Record.StartedAt.UnixMicro())
	}
	sum := sha256.Sum256([]byte(string(d.Phase) + "\x00" + about + "\x00" + spec.key()))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// Deliver makes one call. The outbox calls it for messages of KindWebhook.
func (w *Webhooks) Deliver(ctx context.Context, m store.Message) error {
	err := w.deliver(ctx, m)
	if err != nil && !errors.Is(err, outbox.ErrDrop) && time.Since(m.CreatedAt) > giveUpAfter {
		return fmt.Errorf("%w: tried for three days: %w", outbox.ErrDrop, err)
	}
	return err
}

func (w *Webhooks) deliver(ctx context.Context, m store.Message) error {
	var c call
	if err := json.Unmarshal(m.Payload, &c); err != nil {
		return fmt.Errorf("%w: it cannot be read: %w", outbox.ErrDrop, err)
	}
	for _, spec := range w.opts.Of(c.Template) {
		if spec.URL != "" && spec.key() == c.Hook {
			reply, err := post(ctx, spec, m.ID, []byte(sandbox.PublicIDs(string(c.Body))))
			if err != nil {
				return err
			}
			return w.answered(ctx, spec, m, c.Body, reply)
		}
	}
	return fmt.Errorf("%w: template %s has no webhook of that phase and address any more", outbox.ErrDrop, c.Template)
}

// answered stores the values of a call's answer. An answer that is not valid is logged; the call still counts as
// successful and is not repeated.
func (w *Webhooks) answered(ctx context.Context, spec Spec, m store.Message, body, reply []byte) error {
	var sent event
	if w.opts.Answered == nil || json.Unmarshal(body, &sent) != nil {
		return nil
	}
	d := &Data{Phase: sent.Type, ConversationID: sent.Data.ConversationID, Sandbox: sent.Data.Sandbox}
	if err := d.accept(reply); err != nil {
		if w.opts.Log != nil {
			w.opts.Log.WarnContext(ctx, "a webhook's answer is refused", "hook", spec.Title(), "type", string(sent.Type), "message_id", m.ID,
				telemetry.FieldSandboxID, d.Sandbox.ID, "error", err)
		}
		return nil
	}
	if len(d.metadata) == 0 && len(d.stats) == 0 {
		return nil
	}
	if err := w.opts.Answered(ctx, m, d); err != nil && !errors.Is(err, fault.ErrStale) {
		return fmt.Errorf("store the answer: %w", err)
	}
	return nil
}

// post makes the call and returns its answer. Any status except 2xx is an error. Redirects are not followed.
func post(ctx context.Context, spec Spec, id string, body []byte) (reply []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, spec.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: its address cannot be used", outbox.ErrDrop)
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
		return nil, fmt.Errorf("call %s: %w", request.URL.Host, withoutURL(err))
	}
	defer answer.Body.Close()
	reply, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
	switch {
	case answer.StatusCode == http.StatusGone:
		return nil, fmt.Errorf("%w: %s wants no more of them (410)", outbox.ErrDrop, request.URL.Host)
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return nil, fmt.Errorf("%s answered %s: redirects are not followed", request.URL.Host, answer.Status)
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return nil, fmt.Errorf("%s answered %s: %s", request.URL.Host, answer.Status, oneLine(reply[:min(len(reply), 500)]))
	case err != nil:
		return nil, fmt.Errorf("read the answer of %s: %w", request.URL.Host, withoutURL(err))
	}
	return reply, nil
}

// withoutURL returns the cause of an HTTP client's error. The URL in the error's text may contain a secret.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func oneLine(text []byte) string {
	return cmp.Or(strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "\uFFFD")), " "), "(nothing)")
}

// caller returns an HTTP client for one call. It connects only to public addresses, unless the hook allows others.
// It uses no proxy, because a proxy would connect to private addresses.
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
