package conversations

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// maxPromptBody returns the maximum size of a body with a prompt and its attachments. JSON may need six bytes for one
// byte of text, and base64 needs four for three.
func maxPromptBody(limits chat.AttachmentLimits) int64 {
	return 6*chat.MaxPrompt + 64<<10 + limits.Prompt/3*4 + int64(limits.Count)<<10
}

// promptProblems are the problems of routes that take prompts.
var promptProblems = conversationProblems(
	api.CodeTurnRunning, api.CodeQueueFull, api.CodeQuotaExceeded, api.CodeSpecMismatch, api.CodeSandboxMismatch,
	api.CodeUnknownAgent, api.CodeUnknownTemplate, api.CodeUnknownRuntime,
	api.CodeModelNotAllowed, api.CodeManyAttachments, api.CodeLargeAttachment, api.CodeAttachmentFetch,
)

// addPrompts adds the routes that take prompts.
func (a *handlers) addPrompts(op access.OperationFunc) {
	post := op(http.MethodPost, "/{id}/messages", "prompt", api.ScopeWrite, "Send a prompt to a conversation", promptProblems...)
	a.servePrompt(post, promptTarget{find: a.toConversation}, inConversation)

	into := op(http.MethodPost, "/{id}/sandbox/{sandbox_id}", "prompt-in-sandbox", api.ScopeWrite, "Send a prompt to a conversation in a given sandbox", promptProblems...)
	into.Description = "Both ids can be new UUIDs that the caller chose: the conversation and its own sandbox are then created with them. "
	a.servePrompt(into, promptTarget{find: a.toSandbox}, inConversation, rest.InPath("sandbox_id"))
}

// addClaude adds the deprecated route that sends a prompt to a sandbox's default conversation.
func (a *handlers) addClaude(op access.OperationFunc) {
	post := op(http.MethodPost, "/{id}/claude", "prompt-sandbox", api.ScopeWrite, "Send a prompt to the sandbox's default conversation", promptProblems...)
	post.Description = "Deprecated: use POST /api/v1/conversations/{id}/messages. "
	a.servePrompt(post, promptTarget{find: a.toDefault}, rest.InPath("id"), func(o *huma.Operation) { o.Deprecated = true })
}

// promptTarget is the target of a route's prompts.
type promptTarget struct {
	// find returns the conversation and the sandbox of a prompt.
	find       func(w http.ResponseWriter, r *http.Request) (chat.PromptRequest, error)
	parameters []string // names of the parameters of the query that find reads
	queue      bool     // the default of the parameter queue
}

func (a *handlers) servePrompt(op rest.Operation, to promptTarget, more ...func(*huma.Operation)) {
	op.Description += "Streams the turn's events. The turn continues if the client disconnects; GET …/turns/{turn_id}/events streams it again. With 'Accept: application/json' the turn is returned at once, with 202; with wait=true it is returned after its end, with its answer. " +
		"The same request with the same Idempotency-Key streams the turn that the first request started, from its first event."
	limits := chat.DefaultAttachments
	if a.Chat != nil {
		limits = a.Chat.AttachmentLimits()
	}
	op.Description += "The body is JSON or a form (multipart/form-data). Attachments are in the workspace, below attachments/{turn_id}/, before the agent starts; the agent gets their paths, and images as images if it can. "
	op.Timeout, op.MaxBody, op.Form, op.Claims = exchange.Unlimited, maxPromptBody(limits), true, func(*http.Request) bool { return true }
	op.Also = map[int]string{http.StatusAccepted: "The turn, with 'Accept: application/json'"}
	body := rest.NewBody[api.Prompt](a.Spec, func(*huma.Schema) {
		// The check of base64 in the schema refuses an empty file, and is slow.
		file := a.API.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.PromptFile](), false, "")
		file.Properties["data"].ContentEncoding, file.Properties["data"].Format = "", "byte"
	})
	a.ServeRaw(op, "text/event-stream", a.prompt(body, limits, to), append(more, body.Document, documentForm, rest.Streams[api.TurnEvent](a.Spec, api.TurnEvents), turnAccepted(a),
		rest.InQuery("queue", "boolean", "Wait while another turn runs, instead of returning an error; default: "+strconv.FormatBool(to.queue)),
		rest.InQuery("wait", "boolean", "Return the turn and its answer as JSON after the turn's end, instead of the stream"), inRaw)...)
}

// turnAccepted documents the answer without a stream.
func turnAccepted(a *handlers) func(*huma.Operation) {
	return func(o *huma.Operation) {
		accepted := &huma.Operation{Responses: map[string]*huma.Response{"200": {Content: map[string]*huma.MediaType{}}}}
		rest.Answers[api.Turn](a.Spec)(accepted)
		o.Responses[strconv.Itoa(http.StatusAccepted)].Content = accepted.Responses["200"].Content
	}
}

func (a *handlers) toConversation(_ http.ResponseWriter, r *http.Request) (chat.PromptRequest, error) {
	return chat.PromptRequest{Conversation: r.PathValue("id")}, nil
}

func (a *handlers) toSandbox(_ http.ResponseWriter, r *http.Request) (chat.PromptRequest, error) {
	id, err := a.ResolveID(r.Context(), r.PathValue("sandbox_id"))
	return chat.PromptRequest{Conversation: r.PathValue("id"), Sandbox: id, Make: true}, err
}

// deprecatedSince is the value of the header Deprecation: the beginning of the year 2025.
const deprecatedSince = "@1735689600"

func (a *handlers) toDefault(w http.ResponseWriter, r *http.Request) (chat.PromptRequest, error) {
	w.Header().Set("Deprecation", deprecatedSince)
	w.Header().Set("Link", "<"+exchange.ConversationsPath+`>; rel="successor-version"`)
	s, err := a.Find(r.Context(), r.PathValue("id"))
	return chat.PromptRequest{Sandbox: s.ID, Default: true}, err
}

// prompt returns the handler of the routes that take prompts.
func (a *handlers) prompt(body *rest.Body[api.Prompt], limits chat.AttachmentLimits, to promptTarget) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = rest.ReadQuery(r, append([]string{"queue", "raw", "wait"}, to.parameters...)...)
		}
		var want api.Prompt
		switch {
		case err != nil:
		case middleware.IsForm(r):
			want, err = readForm(r.Header.Get("Content-Type"), data, limits)
		default:
			want, err = body.Read(data)
		}
		if err == nil {
			err = checkPrompt(want)
		}
		var raw, wait bool
		if err == nil {
			raw, err = rest.Flag(r, "raw")
		}
		if err == nil {
			wait, err = rest.Flag(r, "wait")
		}
		if err == nil && a.Room != nil {
			err = a.Room()
		}
		var t store.Turn
		if err == nil {
			if len(want.Attachments) > 0 || middleware.IsForm(r) {
				data = digest(want)
			}
			r.Body = io.NopCloser(bytes.NewReader(data)) // the hash of the request needs the body
			t, err = a.accept(w, r, want, to)
		}
		// The answer may be a stream of many minutes, and the body may be large.
		r.Body = http.NoBody
		if drop := exchange.Of(r.Context()).DropBody; drop != nil {
			drop()
		}
		switch {
		case err != nil:
			exchange.Fail(w, r, err)
		case wait:
			a.awaitTurn(w, r, t)
		case onlyJSON(r):
			setTurnHeaders(w, t)
			w.Header().Set("Location", exchange.ConversationsPath+"/"+sandbox.PublicID(t.Conversation)+"/turns/"+t.ID+"/events")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			rest.WriteJSON(w, r, chat.Show(t))
		default:
			a.streamTurn(w, r, t, 0, raw)
		}
	}
}

// onlyJSON reports whether the client accepts JSON but no stream.
func onlyJSON(r *http.Request) bool {
	return rest.Accepts(r, "application/json") && !rest.WantsEvents(r) && !rest.Accepts(r, "*/*")
}

func checkPrompt(want api.Prompt) error {
	if err := chat.CheckPrompt(want.Prompt); err != nil {
		return exchange.InvalidField("body.prompt", err.Error())
	}
	for i, f := range want.Attachments {
		if f.Data == nil && f.URL == "" {
			return exchange.InvalidField(fmt.Sprintf("body.attachments[%d].data", i), "expected data or url")
		}
	}
	return exchange.CheckPlain("body.model", want.Model)
}

// setTurnHeaders sets the headers with the ids of the turn.
func setTurnHeaders(w http.ResponseWriter, t store.Turn) {
	h := w.Header()
	h.Set(api.HeaderTurnID, t.ID)
	h.Set(api.HeaderConversationID, sandbox.PublicID(t.Conversation))
	h.Set(api.HeaderSandboxID, sandbox.PublicID(t.Sandbox))
	h.Set(api.HeaderMessageID, t.Message)
}

// accept starts the turn, or finds the turn that an earlier attempt at the same request has started.
func (a *handlers) accept(w http.ResponseWriter, r *http.Request, want api.Prompt, to promptTarget) (t store.Turn, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), a.RequestTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	sent := r.Header.Values(middleware.IdempotencyHeader)
	if len(sent) == 0 {
		return a.ask(w, r, want, to, exchange.NewID())
	}
	// A repeat need not wait for the first request to end: the turn's id is known, and a second start with the same
	// id has no effect.
	claim, err := a.Claims.Claim(r, sent)
	switch {
	case claim.Outcome == store.ClaimInFlight:
		return a.ask(w, r, want, to, claim.EffectID)
	case err != nil:
		return t, err
	case claim.Outcome == store.ClaimDone:
		w.Header().Set(middleware.ReplayedHeader, "true")
		return a.startedTurn(ctx, claim.EffectID)
	}
	t, err = a.ask(w, r, want, to, claim.EffectID)
	a.Claims.Settle(ctx, claim, store.Answer{Status: http.StatusAccepted}, err)
	return t, err
}

// startedTurn returns the turn of a prompt that was accepted before.
func (a *handlers) startedTurn(ctx context.Context, id string) (store.Turn, error) {
	t, err := a.In(ctx).Turns().Get(ctx, id)
	if err == nil {
		_, _, err = a.findConversation(ctx, sandbox.PublicID(t.Conversation))
	}
	return t, err
}

// ask passes the prompt to its conversation.
func (a *handlers) ask(w http.ResponseWriter, r *http.Request, want api.Prompt, to promptTarget, id string) (t store.Turn, err error) {
	in, err := a.inConversations(r.Context())
	if err != nil {
		return t, err
	}
	asking, err := to.find(w, r)
	if err != nil {
		return t, err
	}
	asking.Queue = to.queue
	if r.URL.Query().Get("queue") != "" {
		if asking.Queue, err = rest.Flag(r, "queue"); err != nil {
			return t, err
		}
	}
	asking.Prompt, asking.TurnID = want, id
	return in.Prompt(r.Context(), asking)
}
