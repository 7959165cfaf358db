package httpapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/conversation"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/turn"
	"github.com/danielgtaylor/huma/v2"
)

// maxPromptBody is the largest body with a prompt: JSON may take six bytes for one of the text.
const maxPromptBody = 6*turn.MaxPrompt + 64<<10

// prompting are the problems of prompts.
var prompting = ofConversation(
	api.CodeTurnRunning, api.CodeQueueFull, api.CodeQuotaExceeded, api.CodeSpecMismatch, api.CodeSandboxMismatch,
	api.CodeUnknownAgent, api.CodeUnknownTemplate, api.CodeUnknownRuntime,
)

// addPrompts adds the routes that take prompts.
func (a *Handler) addPrompts(op opMaker) {
	post := op(http.MethodPost, "/{id}/messages", "prompt", api.ScopeWrite, "Ask the conversation's agent to do something", prompting...)
	a.servePrompt(post, a.toConversation, inConversation)

	into := op(http.MethodPost, "/{id}/sandbox/{sandbox_id}", "prompt-in-sandbox", api.ScopeWrite, "Ask an agent to do something in a sandbox", prompting...)
	into.Description = "Both ids may be new UUIDs of the caller's choice: the conversation is made under its id, and the sandbox, which is then its own, under the other. "
	a.servePrompt(into, a.toSandbox, inConversation, inPath("sandbox_id"))
}

// addClaude adds the route by which older callers prompt, without a conversation of their own.
func (a *Handler) addClaude(op opMaker) {
	post := op(http.MethodPost, "/{id}/claude", "prompt-sandbox", api.ScopeWrite, "Ask an agent to do something in the sandbox's default conversation", prompting...)
	post.Description = "Deprecated: use POST /api/v1/conversations/{id}/messages. "
	a.servePrompt(post, a.toDefault, inPath("id"), func(o *huma.Operation) { o.Deprecated = true })
}

// addressee says whom a prompt is for.
type addressee func(w http.ResponseWriter, r *http.Request) (conversation.Asking, error)

func (a *Handler) servePrompt(op operation, to addressee, more ...func(*huma.Operation)) {
	op.Description += "The answer is the stream of the turn's events, which outlives it: GET …/turns/{turn_id}/events reads on. With 'Accept: application/json' it is the turn alone, at once. " +
		"The same request with the same Idempotency-Key joins the turn that the first began, running or finished, and streams it from its first event."
	op.Timeout, op.MaxBody, op.Claims = unlimited, maxPromptBody, func(*http.Request) bool { return true }
	op.Also = map[int]string{http.StatusAccepted: "The turn, with 'Accept: application/json'"}
	describeEvents(a)
	body := newBody[api.Prompt](a, nil)
	a.serveRaw(op, "text/event-stream", a.prompt(body, to), append(more, body.document, streams[api.TurnEvent](a), turnAccepted(a),
		inQuery("queue", "boolean", "Wait while another turn runs, instead of being refused"), inRaw)...)
}

// turnAccepted documents the answer without a stream.
func turnAccepted(a *Handler) func(*huma.Operation) {
	return func(o *huma.Operation) {
		accepted := &huma.Operation{Responses: map[string]*huma.Response{"200": {Content: map[string]*huma.MediaType{}}}}
		answers[api.Turn](a)(accepted)
		o.Responses[strconv.Itoa(http.StatusAccepted)].Content = accepted.Responses["200"].Content
	}
}

func (a *Handler) toConversation(_ http.ResponseWriter, r *http.Request) (conversation.Asking, error) {
	return conversation.Asking{Conversation: r.PathValue("id")}, nil
}

func (a *Handler) toSandbox(_ http.ResponseWriter, r *http.Request) (conversation.Asking, error) {
	id, err := a.sandboxID(r.Context(), r.PathValue("sandbox_id"))
	return conversation.Asking{Conversation: r.PathValue("id"), Sandbox: id, Make: true}, err
}

// deprecatedSince is since when there is a better way: the year 2025.
const deprecatedSince = "@1735689600"

func (a *Handler) toDefault(w http.ResponseWriter, r *http.Request) (conversation.Asking, error) {
	w.Header().Set("Deprecation", deprecatedSince)
	w.Header().Set("Link", "<"+conversationsPath+`>; rel="successor-version"`)
	s, err := a.findSandbox(r.Context(), r.PathValue("id"))
	return conversation.Asking{Sandbox: s.ID, Default: true}, err
}

// prompt answers what takes a prompt.
func (a *Handler) prompt(body *jsonBody[api.Prompt], to addressee) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = readQuery(r, "queue", "raw")
		}
		var want api.Prompt
		if err == nil {
			want, err = body.read(data)
		}
		if err == nil {
			err = checkPrompt(want)
		}
		var raw bool
		if err == nil {
			raw, err = flag(r, "raw")
		}
		if err == nil && a.Room != nil {
			err = a.Room()
		}
		var t store.Turn
		if err == nil {
			r.Body = io.NopCloser(bytes.NewReader(data)) // it is a part of what makes two requests the same
			t, err = a.accept(w, r, want, to)
		}
		switch {
		case err != nil:
			fail(w, r, err)
		case onlyJSON(r):
			tellTurn(w, t)
			w.Header().Set("Location", conversationsPath+"/"+t.Conversation+"/turns/"+t.ID+"/events")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			writeJSON(w, r, turn.Show(t))
		default:
			a.streamTurn(w, r, t, 0, raw)
		}
	}
}

// onlyJSON reports whether the caller takes JSON and no stream.
func onlyJSON(r *http.Request) bool {
	return accepts(r, "application/json") && !wantsEvents(r) && !accepts(r, "*/*")
}

func checkPrompt(want api.Prompt) error {
	if err := turn.CheckPrompt(want.Prompt); err != nil {
		return invalidField("body.prompt", err.Error())
	}
	return checkPlain("body.model", want.Model)
}

// tellTurn puts what a prompt led to into the header.
func tellTurn(w http.ResponseWriter, t store.Turn) {
	h := w.Header()
	h.Set(api.HeaderTurnID, t.ID)
	h.Set(api.HeaderConversationID, t.Conversation)
	h.Set(api.HeaderSandboxID, t.Sandbox)
	h.Set(api.HeaderMessageID, t.Message)
}

// accept begins the turn, or finds the one that the same request began.
func (a *Handler) accept(w http.ResponseWriter, r *http.Request, want api.Prompt, to addressee) (t store.Turn, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), a.RequestTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	sent := r.Header.Values(idempotencyHeader)
	if len(sent) == 0 {
		return a.ask(w, r, want, to, newID())
	}
	// Who comes while the first request is still at work need not wait: the turn's id is known, and
	// beginning it twice is beginning it once.
	claim, err := a.claim(r, sent)
	switch {
	case claim.Outcome == store.ClaimInFlight:
		return a.ask(w, r, want, to, claim.EffectID)
	case err != nil:
		return t, err
	case claim.Outcome == store.ClaimDone:
		w.Header().Set(replayedHeader, "true")
		return a.begun(ctx, claim.EffectID)
	}
	t, err = a.ask(w, r, want, to, claim.EffectID)
	a.settleClaim(ctx, claim, store.Answer{Status: http.StatusAccepted}, err)
	return t, err
}

// begun is the turn of a prompt that was accepted before.
func (a *Handler) begun(ctx context.Context, id string) (store.Turn, error) {
	t, err := a.in(ctx).Turn(ctx, id)
	if err == nil {
		_, _, err = a.findConversation(ctx, t.Conversation)
	}
	return t, err
}

// ask hands the prompt on.
func (a *Handler) ask(w http.ResponseWriter, r *http.Request, want api.Prompt, to addressee, id string) (t store.Turn, err error) {
	in, err := a.inConversations(r.Context())
	if err != nil {
		return t, err
	}
	asking, err := to(w, r)
	if err != nil {
		return t, err
	}
	if asking.Queue, err = flag(r, "queue"); err != nil {
		return t, err
	}
	asking.Prompt, asking.TurnID = want, id
	return in.Prompt(r.Context(), asking)
}
