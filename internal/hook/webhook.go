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
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
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
	// Answered takes a call out of the outbox and stores what its answer sets: both, or neither. Nil: answers
	// are not read. sandbox.ErrStale says that another server was faster.
	Answered func(ctx context.Context, m store.Message, d *Data) error
	Log      *slog.Logger // nil: refused answers are not logged
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
			said, err := post(ctx, spec, m.ID, c.Body)
			if err != nil {
				return err
			}
			return w.answered(ctx, spec, m, c.Body, said)
		}
	}
	return fmt.Errorf("%w: template %s has no webhook of that phase and address any more", outbox.ErrDrop, c.Template)
}

// answered stores what the answer of a call sets. An answer that is refused is logged: the call itself was a
// success, and is not repeated.
func (w *Webhooks) answered(ctx context.Context, spec Spec, m store.Message, body, said []byte) error {
	var told event
	if w.Answered == nil || json.Unmarshal(body, &told) != nil {
		return nil
	}
	d := &Data{Phase: told.Type, ConversationID: told.Data.ConversationID, Sandbox: told.Data.Sandbox}
	if err := d.accept(said); err != nil {
		if w.Log != nil {
			w.Log.WarnContext(ctx, "a webhook's answer is refused", "hook", spec.Title(), "type", string(told.Type), "message_id", m.ID,
				telemetry.FieldSandboxID, d.Sandbox.ID, "error", err)
		}
		return nil
	}
	if len(d.metadata) == 0 && len(d.stats) == 0 {
		return nil
	}
	if err := w.Answered(ctx, m, d); err != nil && !errors.Is(err, sandbox.ErrStale) {
		return fmt.Errorf("store the answer: %w", err)
	}
	return nil
}

// post makes the call and returns its answer. Only success within the time is success: a redirect is none, and is not followed.
func post(ctx context.Context, spec Spec, id string, body []byte) (said []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callFor)
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
		return nil, fmt.Errorf("call %s: %w", request.URL.Host, plain(err))
	}
	defer answer.Body.Close()
	said, err = io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	switch {
	case answer.StatusCode == http.StatusGone:
		return nil, fmt.Errorf("%w: %s wants no more of them (410)", outbox.ErrDrop, request.URL.Host)
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return nil, fmt.Errorf("%s answered %s: redirects are not followed", request.URL.Host, answer.Status)
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return nil, fmt.Errorf("%s answered %s: %s", request.URL.Host, answer.Status, oneLine(said[:min(len(said), 500)]))
	case err != nil:
		return nil, fmt.Errorf("read the answer of %s: %w", request.URL.Host, plain(err))
	}
	return said, nil
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
