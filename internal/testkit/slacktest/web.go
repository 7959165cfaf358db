package slacktest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// args are the arguments of a call. Values that are not texts are kept as JSON.
type args map[string]string

// parseArgs reads the arguments of a call from its query, and its body as a form, a multipart form or JSON.
func parseArgs(r *http.Request) (args, error) {
	a := args{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		var body map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil && err != io.EOF {
			return nil, err
		}
		for name, raw := range body {
			var text string
			switch {
			case json.Unmarshal(raw, &text) == nil:
				a[name] = text
			case !bytes.Equal(raw, []byte("null")):
				a[name] = string(raw)
			}
		}
		return a, nil
	}
	if err := r.ParseMultipartForm(64 << 20); err != nil && err != http.ErrNotMultipart {
		return nil, err
	}
	for name, values := range r.Form {
		a[name] = values[0]
	}
	return a, nil
}

// web has the methods of the Web API. Each returns an answer without "ok", or the code of an error.
type web struct{ *Team }

// method is a method of the Web API.
type method struct {
	scope string
	app   bool // the token is that of the app, not of the bot
	call  func(t web, a args) (obj, string)
}

var methods = map[string]method{
	"auth.test":                    {call: web.authTest},
	"apps.connections.open":        {call: web.openConnection, app: true},
	"chat.postMessage":             {"chat:write", false, web.postMessage},
	"chat.postEphemeral":           {"chat:write", false, web.postEphemeral},
	"chat.update":                  {"chat:write", false, web.update},
	"chat.delete":                  {"chat:write", false, web.deleteMessage},
	"chat.startStream":             {"chat:write", false, web.startStream},
	"chat.appendStream":            {"chat:write", false, web.appendStream},
	"chat.stopStream":              {"chat:write", false, web.stopStream},
	"conversations.replies":        {"channels:history", false, web.replies},
	"conversations.info":           {"channels:read", false, web.channelInfo},
	"conversations.open":           {"im:write", false, web.openDM},
	"users.info":                   {"users:read", false, web.userInfo},
	"reactions.add":                {"reactions:write", false, web.addReaction},
	"reactions.remove":             {"reactions:write", false, web.removeReaction},
	"files.getUploadURLExternal":   {"files:write", false, web.uploadURL},
	"files.completeUploadExternal": {"files:write", false, web.completeUpload},
	"files.info":                   {"files:read", false, web.fileInfo},
	"assistant.threads.setStatus":  {"assistant:write", false, web.setStatus},
}

// serveMethod answers a call of the Web API.
func (s *Server) serveMethod(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("method")
	a, err := parseArgs(r)
	if err != nil {
		answer(w, obj{"ok": false, "error": "invalid_json"})
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		token = a["token"]
	}
	delete(a, "token")
	m, known := methods[name]
	t, refused := s.authorize(token, m.app)
	if t != nil && strings.HasSuffix(name, "Stream") {
		s.mu.Lock()
		known = known && !t.streamless
		s.mu.Unlock()
	}
	switch {
	case !known:
		answer(w, obj{"ok": false, "error": "unknown_method", "req_method": name})
		return
	case refused != "":
		answer(w, obj{"ok": false, "error": refused})
		return
	}
	f := t.takeFault(name)
	select {
	case <-time.After(f.Delay):
	case <-r.Context().Done():
		return
	}
	switch {
	case f.RetryAfter > 0:
		t.note(name, a, "ratelimited")
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"ok":false,"error":"ratelimited"}`))
		return
	case f.Status != 0:
		t.note(name, a, http.StatusText(f.Status))
		http.Error(w, "<html>"+http.StatusText(f.Status)+"</html>", f.Status)
		return
	case f.Error != "":
		t.note(name, a, f.Error)
		answer(w, obj{"ok": false, "error": f.Error})
		return
	}
	out := t.do(m, a)
	code, _ := out["error"].(string)
	t.note(name, a, code)
	if f.Lost {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("X-OAuth-Scopes", strings.Join(t.allowed(), ","))
	answer(w, out)
}

func (t *Team) allowed() []string {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	return slices.Clone(t.scopes)
}

// do makes a call and returns its answer.
func (t *Team) do(m method, a args) obj {
	if allowed := t.allowed(); m.scope != "" && !slices.Contains(allowed, m.scope) {
		return obj{"ok": false, "error": "missing_scope", "needed": m.scope, "provided": strings.Join(allowed, ",")}
	}
	out, code := m.call(web{t}, a)
	if code != "" {
		return obj{"ok": false, "error": code}
	}
	all := obj{"ok": true}
	maps.Copy(all, out)
	return all
}

// authorize returns the workspace of a token.
func (s *Server) authorize(token string, app bool) (*Team, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token == "" {
		return nil, "not_authed"
	}
	for _, t := range s.teams {
		switch {
		case token != t.BotToken && token != t.AppToken:
		case t.revoked:
			return nil, "token_revoked"
		case (token == t.AppToken) != app:
			return nil, "not_allowed_token_type"
		default:
			return t, ""
		}
	}
	return nil, "invalid_auth"
}

func (t *Team) note(name string, a args, code string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.calls = append(t.calls, Call{Method: name, Args: a, Error: code, At: time.Now()})
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(body)
}

func (t web) authTest(args) (obj, string) {
	return obj{"url": "https://" + strings.ToLower(t.ID) + ".slack.example/", "team": t.Name, "user": "berth", "team_id": t.ID, "user_id": t.BotUser, "bot_id": t.BotID, "is_enterprise_install": false}, ""
}

func (t web) openConnection(args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	ticket := t.server.id("ticket")
	t.tickets[ticket] = true
	return obj{"url": "ws" + strings.TrimPrefix(t.server.URL, "http") + "/link?" + url.Values{"ticket": {ticket}, "team": {t.ID}}.Encode()}, ""
}

func (t web) userInfo(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	u, ok := t.users[a["user"]]
	if !ok {
		return nil, "user_not_found"
	}
	profile := obj{"display_name": u.Name, "real_name": u.Name}
	if slices.Contains(t.scopes, "users:read.email") && u.Email != "" {
		profile["email"] = u.Email
	}
	return obj{"user": obj{"id": u.ID, "team_id": t.ID, "name": u.Name, "real_name": u.Name, "is_bot": u.Bot, "deleted": false, "profile": profile}}, ""
}

func (t web) channelInfo(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c := t.channels[a["channel"]]
	if c == nil {
		return nil, "channel_not_found"
	}
	return obj{"channel": obj{"id": c.id, "is_im": c.im != "", "user": c.im, "is_member": c.members[t.BotUser], "is_archived": c.archived}}, ""
}

func (t web) openDM(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	if _, ok := t.users[a["users"]]; !ok {
		return nil, "user_not_found"
	}
	return obj{"channel": obj{"id": t.dm(a["users"]).id}}, ""
}

func (t web) setStatus(a args) (obj, string) {
	if a["channel_id"] == "" || a["thread_ts"] == "" {
		return nil, "invalid_arguments"
	}
	return nil, ""
}
