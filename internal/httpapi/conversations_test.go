package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/transcript/sqltranscript"
)

const someID = "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"

func TestLifeOfAConversation(t *testing.T) {
	testkit.Proves(t, "C2", "C5")
	talksOnBoth(t, func(t *testing.T, w *talks) {
		made := w.do(call{method: http.MethodPost, path: "/conversations", key: w.write, body: `{"title":"first","metadata":{"a":"b"}}`}).is(http.StatusCreated)
		c := into[api.Conversation](made)
		if c.Status != "idle" || c.Title != "first" || c.OrganizationID != "acme" || c.Template != "default" || c.SandboxID != "" || c.Metadata["a"] != "b" {
			t.Errorf("%+v", c)
		}
		one := conversationsPath + "/" + c.ID
		if at := made.header.Get("Location"); at != one {
			t.Errorf("it is at %s", at)
		}

		first := w.prompt(one+"/messages", "hello world")
		events := first.rest()
		if said(events) != "hello world" {
			t.Errorf("said %q", said(events))
		}
		begin, end := events[0], events[len(events)-1]
		if begin.Type != api.EventTurnStarted || begin.ConversationID != c.ID || begin.TurnID != first.turn() || begin.SandboxID == "" ||
			begin.MessageID != first.res.Header.Get(api.HeaderMessageID) || begin.SandboxID != first.res.Header.Get(api.HeaderSandboxID) ||
			first.res.Header.Get(api.HeaderConversationID) != c.ID {
			t.Errorf("it begins with %+v; %v", begin, first.res.Header)
		}
		if end.Status != api.TurnCompleted || *end.Usage != (api.Usage{InputTokens: 1, OutputTokens: 2}) || end.Stats.MessagesExchanged != 2 || end.Stats.TotalOutputTokens != 2 {
			t.Errorf("it ends with %+v", end)
		}
		for i, e := range events {
			if e.id != api.EventID(first.turn(), int64(i+1)) || e.Raw != nil {
				t.Errorf("event %d is %+v", i+1, e)
			}
		}

		now := into[api.Conversation](w.get(one).is(http.StatusOK))
		if now.SandboxID != begin.SandboxID || now.Status != "idle" || now.TurnID != "" || now.Stats != *end.Stats || now.Undelivered != nil {
			t.Errorf("%+v", now)
		}
		// Its sandbox is there, and is its own.
		ensured := w.post(one+"/sandbox", "").is(http.StatusOK)
		if got := into[api.ConversationSandbox](ensured); got.SandboxID != now.SandboxID || got.ConversationID != c.ID || got.Sandbox.Owner != (api.Owner{Kind: "conversation", ID: c.ID}) || got.Sandbox.State != "running" {
			t.Errorf("%+v", got)
		}
		w.prompt(one+"/messages", "and fail").rest()

		messages := into[api.List[api.Message]](w.get(one + "/messages").is(http.StatusOK)).Items
		if len(messages) != 4 || messages[0].Text() != "hello world" || messages[0].Role != api.RoleUser || messages[1].Text() != "hello\n\nworld" ||
			messages[1].Model != "script-1" || messages[1].TurnID != first.turn() || messages[3].Status != api.TurnFailed || messages[3].Error == "" {
			t.Errorf("%+v", messages)
		}
		if got := into[api.Message](w.get(one + "/messages/" + messages[1].ID).is(http.StatusOK)); got.Text() != messages[1].Text() {
			t.Errorf("%+v", got)
		}
		pages := w.messagePages(one, "asc")
		newest := w.messagePages(one, "desc")
		slices.Reverse(newest)
		if !slices.Equal(pages, newest) || len(pages) != 4 || pages[0] != messages[0].ID {
			t.Errorf("pages of %v and %v", pages, newest)
		}

		turns := into[api.List[api.Turn]](w.get(one + "/turns?limit=1").is(http.StatusOK))
		if len(turns.Items) != 1 || turns.Items[0].Status != api.TurnFailed || turns.Items[0].Code != api.CodeAgentFailed || turns.NextCursor == "" {
			t.Errorf("%+v", turns)
		}
		older := into[api.List[api.Turn]](w.get(one + "/turns?limit=1&cursor=" + turns.NextCursor).is(http.StatusOK))
		if len(older.Items) != 1 || older.Items[0].ID != first.turn() || older.Items[0].Usage.OutputTokens != 2 || older.NextCursor != "" {
			t.Errorf("%+v", older)
		}

		w.remove(one).is(http.StatusNoContent)
		for _, path := range []string{one, one + "/messages", one + "/turns", one + "/turns/" + first.turn() + "/events", one + "/export"} {
			w.get(path).fails(api.CodeDeleted)
		}
		w.remove(one).fails(api.CodeDeleted)
		w.post(one+"/messages", promptBody("x")).fails(api.CodeDeleted)
		w.post(conversationsPath, fmt.Sprintf(`{"id":%q}`, c.ID)).fails(api.CodeDeleted)
		w.get(sandboxesPath + "/" + now.SandboxID).fails(api.CodeDeleted)
	})
}

// messagePages are the ids of all messages, a page each.
func (w *talks) messagePages(one, order string) (ids []string) {
	w.t.Helper()
	for cursor := ""; ; {
		page := into[api.List[api.Message]](w.get(one + "/messages?limit=1&order=" + order + "&cursor=" + cursor).is(http.StatusOK))
		for _, m := range page.Items {
			ids = append(ids, m.ID)
		}
		if cursor = page.NextCursor; cursor == "" {
			return ids
		}
	}
}

// The three spellings are one.
func TestConversationsHaveThreeSpellings(t *testing.T) {
	w := newTalks(t)
	for i, base := range []string{conversationsPath, "/conversations", "/conversation"} {
		key := map[string]string{idempotencyHeader: fmt.Sprint("key ", i)}
		c := into[api.Conversation](w.do(call{method: http.MethodPost, path: base, key: w.write, header: key}).is(http.StatusCreated))
		one := base + "/" + c.ID
		s := w.prompt(one+"/messages", "a b")
		if said(s.rest()) != "a b" {
			t.Errorf("%s is silent", base)
		}
		w.get(one).is(http.StatusOK)
		w.get(one + "/messages").is(http.StatusOK)
		w.get(one + "/turns/" + s.turn()).is(http.StatusOK)
		w.get(one + "/export").is(http.StatusOK)
		if got := w.follow(http.MethodGet, one+"/turns/"+s.turn()+"/events", "").rest(); said(got) != "a b" {
			t.Errorf("%s: %+v", base, got)
		}
		w.post(one+"/turns/"+s.turn()+"/cancel", "").fails(api.CodeTurnFinished)
		w.post(one+"/sandbox", "").is(http.StatusOK)
		w.remove(one).is(http.StatusNoContent)
	}
}

func TestConversationUnderAChosenID(t *testing.T) {
	w := newTalks(t)
	body := fmt.Sprintf(`{"id":%q}`, strings.ToUpper(someID))
	if got := into[api.Conversation](w.post(conversationsPath, body).is(http.StatusCreated)); got.ID != someID {
		t.Errorf("%+v", got)
	}
	w.post(conversationsPath, body).is(http.StatusOK)
	w.post(conversationsPath, fmt.Sprintf(`{"id":%q,"template":"none"}`, someID)).fails(api.CodeSpecMismatch)
	key := map[string]string{idempotencyHeader: "k"}
	first := w.do(call{method: http.MethodPost, path: conversationsPath, key: w.write, header: key}).is(http.StatusCreated)
	again := w.do(call{method: http.MethodPost, path: conversationsPath, key: w.write, header: key}).is(http.StatusCreated)
	if string(first.body) != string(again.body) || again.header.Get(replayedHeader) != "true" {
		t.Errorf("%s, %s", first.body, again.body)
	}
}

func TestConversationsAreListed(t *testing.T) {
	w := newTalks(t)
	box := into[api.Sandbox](w.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated))
	_, free := w.new("")
	path, linked := w.new(`{"sandbox_id":"box"}`)
	if linked.SandboxID != box.ID {
		t.Fatalf("%+v", linked)
	}
	s := w.prompt(path+"/messages", "wait:x")
	s.upToStart()
	list := into[api.List[api.Conversation]](w.get(conversationsPath + "?limit=1").is(http.StatusOK))
	if len(list.Items) != 1 || list.Items[0].ID != linked.ID || list.Items[0].Status != "running" || list.Items[0].TurnID != s.turn() {
		t.Errorf("%+v", list)
	}
	rest := into[api.List[api.Conversation]](w.get(conversationsPath + "?limit=1&cursor=" + list.NextCursor).is(http.StatusOK))
	if len(rest.Items) != 1 || rest.Items[0].ID != free.ID || rest.Items[0].Status != "idle" || rest.NextCursor != "" {
		t.Errorf("%+v", rest)
	}
	for _, ref := range []string{"box", box.ID} {
		in := into[api.List[api.Conversation]](w.get(conversationsPath + "?sandbox_id=" + ref).is(http.StatusOK))
		if len(in.Items) != 1 || in.Items[0].ID != linked.ID {
			t.Errorf("in %s: %+v", ref, in)
		}
	}
	w.get(conversationsPath + "?sandbox_id=" + box.ID + "&cursor=" + list.NextCursor).fails(api.CodeInvalidCursor)
	if got := into[api.Sandbox](w.get(sandboxesPath + "/box").is(http.StatusOK)); got.TurnID != s.turn() {
		t.Errorf("the sandbox's turn is %q", got.TurnID)
	}
	w.agents.open("x")
	s.rest()
}

// Both ids of the caller's choice.
func TestPromptMakesWhatItNames(t *testing.T) {
	testkit.Proves(t, "C2")
	w := newTalks(t)
	conv, box := exchange.NewID(), exchange.NewID()
	path := "/conversations/" + conv + "/sandbox/" + box
	events := w.prompt(path, "hi").rest()
	if events[0].ConversationID != conv || events[0].SandboxID != box {
		t.Errorf("%+v", events[0])
	}
	if got := into[api.Sandbox](w.get(sandboxesPath + "/" + box).is(http.StatusOK)); got.Owner != (api.Owner{Kind: "conversation", ID: conv}) {
		t.Errorf("%+v", got)
	}
	if again := w.prompt(path, "on").rest(); again[0].SandboxID != box {
		t.Errorf("%+v", again[0])
	}
	w.post("/conversations/"+conv+"/sandbox/"+exchange.NewID(), promptBody("x")).fails(api.CodeSandboxMismatch)
	// With its sandbox by its name, too, and with or without its agent and template.
	w.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated)
	w.prompt("/conversations/"+exchange.NewID()+"/sandbox/box", "x").rest()
	w.post("/conversations/"+exchange.NewID()+"/sandbox/no-such-box", promptBody("x")).fails(api.CodeNotFound)
	w.post("/conversations/"+exchange.NewID()+"/sandbox/"+exchange.NewID(), `{"prompt":"x","template":"unheard-of"}`).fails(api.CodeUnknownTemplate)
	w.post("/conversations/"+exchange.NewID()+"/sandbox/"+exchange.NewID(), `{"prompt":"x","agent_id":"`+someID+`"}`).fails(api.CodeUnknownAgent)
	w.post("/conversations/"+conv+"/messages", `{"prompt":"x","agent_id":"`+someID+`"}`).fails(api.CodeUnknownAgent)
	w.post("/conversations/"+conv+"/messages", `{"prompt":"x","template":"unheard-of"}`).fails(api.CodeUnknownTemplate)
	w.post("/conversations/"+conv+"/messages", `{"prompt":"x","template":"none"}`).fails(api.CodeSpecMismatch)
	agent := into[api.Agent](w.post(agentsPath, `{"name":"tester","template":"default"}`).is(http.StatusCreated))
	made := exchange.NewID()
	w.follow(http.MethodPost, "/conversations/"+made+"/sandbox/"+exchange.NewID(), `{"prompt":"x","agent_id":"`+agent.ID+`","template":"default"}`).rest()
	if got := into[api.Conversation](w.get(conversationsPath + "/" + made).is(http.StatusOK)); got.AgentID != agent.ID {
		t.Errorf("%+v", got)
	}
}

// Older callers have no conversations.
func TestOlderCallersPrompt(t *testing.T) {
	testkit.Proves(t, "C2")
	w := newTalks(t)
	box := into[api.Sandbox](w.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated))
	// A refused request leaves nothing behind.
	path := "/sandboxes/" + box.ID + "/claude"
	w.post(path, promptBody(" ")).fails(api.CodeInvalidRequest)
	w.post(path+"?queue=perhaps", promptBody("hi")).fails(api.CodeInvalidRequest)
	w.post(path, `{"prompt":"hi","template":"nonesuch"}`).fails(api.CodeUnknownTemplate)
	if got := into[api.List[api.Conversation]](w.get(conversationsPath).is(http.StatusOK)); len(got.Items) > 0 {
		t.Errorf("there are %+v", got.Items)
	}
	var conversations []string
	for _, path := range []string{"/sandboxes/" + box.ID + "/claude", sandboxesPath + "/box/claude", "/api/v1/sandbox/box/claude"} {
		s := w.prompt(path, "hi there")
		events := s.rest()
		if said(events) != "hi there" || events[0].SandboxID != box.ID || !strings.HasPrefix(s.res.Header.Get("Deprecation"), "@") || s.res.Header.Get("Link") == "" {
			t.Errorf("%s: %+v, %v", path, events, s.res.Header)
		}
		conversations = append(conversations, events[0].ConversationID)
	}
	if conversations = slices.Compact(conversations); len(conversations) != 1 {
		t.Errorf("their conversations are %v", conversations)
	}
	if got := into[api.Conversation](w.get(conversationsPath + "/" + conversations[0]).is(http.StatusOK)); got.Stats.MessagesExchanged != 6 {
		t.Errorf("%+v", got)
	}
	w.post(sandboxesPath+"/no-such-box/claude", promptBody("x")).fails(api.CodeNotFound)
	op := w.specification().Paths[sandboxesPath+"/{id}/claude"]["post"]
	if op["deprecated"] != true {
		t.Errorf("the specification does not say that it is deprecated")
	}
}

// Deleting a conversation ends its own sandbox if that is asked for, and never one that others use.
func TestDeletingAConversation(t *testing.T) {
	testkit.Proves(t, "O7", "C10")
	w := newTalks(t)
	state := func(id string) string {
		return into[api.Sandbox](w.get(sandboxesPath + "/" + id).is(http.StatusOK)).State
	}
	kept, first := exchange.NewID(), exchange.NewID()
	w.prompt("/conversations/"+first+"/sandbox/"+kept, "a").rest()
	w.remove(conversationsPath + "/" + first + "?terminate_sandbox=false").is(http.StatusNoContent)
	if got := state(kept); got != "running" {
		t.Errorf("it is %s", got)
	}
	w.remove(conversationsPath + "/" + first + "?terminate_sandbox=perhaps").fails(api.CodeInvalidRequest)

	// A second conversation in the first one's sandbox.
	shared, owner := exchange.NewID(), exchange.NewID()
	w.prompt("/conversations/"+owner+"/sandbox/"+shared, "a").rest()
	other, guest := w.new(fmt.Sprintf(`{"sandbox_id":%q}`, shared))
	if s := w.prompt(other+"/messages", "b").rest(); s[0].SandboxID != shared {
		t.Errorf("%+v", s[0])
	}
	w.remove(conversationsPath + "/" + owner).is(http.StatusNoContent)
	if got := state(shared); got != "running" {
		t.Errorf("it is %s", got)
	}
	w.prompt(other+"/messages", "c").rest()
	w.remove(conversationsPath + "/" + guest.ID + "?terminate_sandbox=true&sync=false").is(http.StatusNoContent)
	w.get(sandboxesPath + "/" + shared).fails(api.CodeDeleted) // the last one that worked in it

	// What runs is ended first.
	path, _ := w.new("")
	s := w.prompt(path+"/messages", "wait:never")
	s.upToStart()
	w.remove(path + "?terminate_sandbox=true").is(http.StatusNoContent)
	events := s.rest()
	if end := events[len(events)-1]; end.Status != api.TurnCancelled || !slices.Contains(w.finished(), s.turn()) {
		t.Errorf("%+v", end)
	}
	w.get(sandboxesPath + "/" + s.res.Header.Get(api.HeaderSandboxID)).fails(api.CodeDeleted)
}

// Two conversations in one sandbox have messages of their own, and take turns.
func TestConversationsShareASandbox(t *testing.T) {
	testkit.Proves(t, "C10")
	w := newTalks(t)
	w.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated)
	one, _ := w.new(`{"sandbox_id":"box"}`)
	two, _ := w.new(`{"sandbox_id":"box"}`)
	s := w.prompt(one+"/messages", "wait:x")
	s.upToStart()
	w.post(two+"/messages", promptBody("no")).fails(api.CodeTurnRunning)
	waits := w.prompt(two+"/messages?queue=true", "later")
	if e := waits.upToStart(); e.SandboxID != s.res.Header.Get(api.HeaderSandboxID) {
		t.Errorf("%+v", e)
	}
	w.agents.open("x")
	s.rest()
	if got := waits.rest(); said(got) != "later" {
		t.Errorf("%+v", got)
	}
	for path, text := range map[string]string{one: "wait:x", two: "later"} {
		if got := into[api.List[api.Message]](w.get(path + "/messages").is(http.StatusOK)).Items; len(got) != 2 || got[0].Text() != text {
			t.Errorf("%+v", got)
		}
	}
}

// A tenant sees nothing of another's, and cannot tell it from nothing at all.
func TestTenantsDoNotShareConversations(t *testing.T) {
	w := newTalks(t)
	path, _ := w.new("")
	turnID := func() string { s := w.prompt(path+"/messages", "secret"); s.rest(); return s.turn() }()
	theirs := w.newKey("globex", api.ScopeAdmin)
	own := into[api.Conversation](w.do(call{method: http.MethodPost, path: conversationsPath, key: theirs}).is(http.StatusCreated))
	box := into[api.Conversation](w.get(path).is(http.StatusOK)).SandboxID
	as := func(method, path, body string) api.Problem {
		t.Helper()
		return w.do(call{method: method, path: path, key: theirs, body: body}).fails(api.CodeNotFound)
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", path, ""}, {"DELETE", path, ""}, {"GET", path + "/messages", ""}, {"POST", path + "/messages", promptBody("x")}, {"POST", path + "/sandbox", ""},
		{"GET", path + "/turns", ""}, {"GET", path + "/turns/" + turnID, ""}, {"GET", path + "/turns/" + turnID + "/events", ""}, {"POST", path + "/turns/" + turnID + "/cancel", ""},
		{"GET", path + "/export", ""}, {"GET", conversationsPath + "/" + own.ID + "/turns/" + turnID + "/events", ""},
		{"POST", "/sandboxes/" + box + "/claude", promptBody("x")},
	} {
		mine, nobodys := as(c.method, c.path, c.body), exchange.NewID()
		unknown := strings.NewReplacer(path, conversationsPath+"/"+nobodys, box, nobodys).Replace(c.path)
		other := as(c.method, unknown, c.body)
		hide := strings.NewReplacer(nobodys, "X", strings.TrimPrefix(path, conversationsPath+"/"), "X", box, "X").Replace
		if hide(mine.Detail) != hide(other.Detail) || mine.Hint != other.Hint {
			t.Errorf("%s %s: %q is not %q", c.method, c.path, mine.Detail, other.Detail)
		}
	}
	if got := into[api.List[api.Conversation]](w.do(call{path: conversationsPath, key: theirs}).is(http.StatusOK)); len(got.Items) != 1 {
		t.Errorf("%+v", got)
	}
	if got := into[api.UsageReport](w.do(call{path: usagePath, key: theirs}).is(http.StatusOK)); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
	// Who may only read does not ask.
	for _, path := range []string{path + "/messages", path + "/sandbox/" + exchange.NewID(), path + "/sandbox", path + "/turns/" + turnID + "/cancel", conversationsPath} {
		w.do(call{method: http.MethodPost, path: path, key: w.read, body: promptBody("x")}).fails(api.CodeForbidden)
	}
	w.do(call{method: http.MethodDelete, path: path, key: w.read}).fails(api.CodeForbidden)
}

func TestExportOfAConversation(t *testing.T) {
	w := newTalks(t)
	path, _ := w.new(`{"title":"A *title*"}`)
	w.prompt(path+"/messages", "one ```two").rest()
	w.prompt(path+"/messages", `json:{"type":"tool.call","id":"1","name":"bash","input":{"command":"ls"}} json:{"type":"tool.result","id":"1","text":"`+"````"+`"} fail`).rest()
	whole := w.get(path + "/export").is(http.StatusOK)
	got := into[api.ConversationExport](whole)
	if len(got.Messages) != 4 || got.Conversation.Stats.MessagesExchanged != 4 || got.Messages[1].Text() != "one\n\n```two" {
		t.Errorf("%+v", got)
	}
	if name := whole.header.Get("Content-Disposition"); !strings.Contains(name, got.Conversation.ID+".json") {
		t.Errorf("it is called %q", name)
	}
	text := w.get(path + "/export?format=markdown").is(http.StatusOK)
	if kind := text.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/markdown") {
		t.Errorf("it is %q", kind)
	}
	for _, want := range []string{"# A *title*\n", "## User, ", "\none ```two\n", "## Assistant, ", "script-1", "Tool bash:\n\n```json\n{\n  \"command\": \"ls\"\n}\n```\n", "`````\n````\n`````", "**failed:**", "as requested"} {
		if !strings.Contains(string(text.body), want) {
			t.Errorf("%q is not in\n%s", want, text.body)
		}
	}
	w.get(path + "/export?format=pdf").fails(api.CodeInvalidRequest)
	// A long one, page by page.
	empty, long := w.new("")
	for range transcript.MaxLimit + 1 {
		m := api.Message{ID: exchange.NewID(), ConversationID: long.ID, Role: api.RoleUser, Content: []api.Block{}, Status: api.TurnCompleted}
		if err := sqltranscript.New(w.db).Put(t.Context(), "acme", m); err != nil {
			t.Fatal(err)
		}
	}
	if got := into[api.ConversationExport](w.get(empty + "/export?format=json").is(http.StatusOK)); len(got.Messages) != transcript.MaxLimit+1 {
		t.Errorf("%d messages", len(got.Messages))
	}
	empty, _ = w.new("")
	if got := into[api.ConversationExport](w.get(empty + "/export").is(http.StatusOK)); got.Messages == nil || len(got.Messages) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestBadConversations(t *testing.T) {
	w := newTalks(t)
	path, c := w.new("")
	s := w.prompt(path+"/messages", "a")
	s.rest()
	other, _ := w.new("")
	cursors := into[api.List[api.Message]](w.get(path + "/messages?limit=1").is(http.StatusOK)).NextCursor
	for _, bad := range []struct {
		path, body string
		code       api.Code
	}{
		{conversationsPath, `{"id":"x"}`, api.CodeInvalidID},
		{conversationsPath, `{"sandbox_id":"Not_A_Name"}`, api.CodeInvalidID},
		{conversationsPath, `{"title":"a\nb"}`, api.CodeInvalidRequest},
		{conversationsPath, `{"account_id":"a\u0007"}`, api.CodeInvalidRequest},
		{conversationsPath, `{"titel":"x"}`, api.CodeInvalidRequest},
		{conversationsPath, `{"metadata":{"` + strings.Repeat("x", 300) + `":"y"}}`, api.CodeInvalidRequest},
		{conversationsPath, `{"template":"unheard-of"}`, api.CodeUnknownTemplate},
		{conversationsPath, `{"agent_id":"` + someID + `"}`, api.CodeUnknownAgent},
		{conversationsPath, `{"agent_id":"` + someID + `","template":"default"}`, api.CodeUnknownAgent},
		{path + "/messages", `{"prompt":""}`, api.CodeInvalidRequest},
		{path + "/messages", `{"prompt":" \n\t"}`, api.CodeInvalidRequest},
		{path + "/messages", `{"prompt":"a\u0000b"}`, api.CodeInvalidRequest},
		{path + "/messages", `{"prompt":1}`, api.CodeInvalidRequest},
		{path + "/messages", `{}`, api.CodeInvalidRequest},
		{path + "/messages", `{"prompt":"a","modle":"b"}`, api.CodeInvalidRequest},
		{path + "/messages", `{"prompt":"a","model":"b\n"}`, api.CodeInvalidRequest},
		{path + "/messages", `[]`, api.CodeInvalidRequest},
		{path + "/messages", `x`, api.CodeInvalidRequest},
		{path + "/messages?queue=perhaps", promptBody("a"), api.CodeInvalidRequest},
		{path + "/messages?raw=perhaps", promptBody("a"), api.CodeInvalidRequest},
		{path + "/messages?que=true", promptBody("a"), api.CodeInvalidRequest},
		{path + "/messages", `{"prompt":"` + strings.Repeat("x", 1<<20+1) + `"}`, api.CodeInvalidRequest},
		{path + "/messages", `{"prompt":"` + strings.Repeat("x", 7<<20) + `"}`, api.CodeInvalidRequest},
		{conversationsPath + "/x/messages", promptBody("a"), api.CodeInvalidID},
		{conversationsPath + "/x/sandbox", "", api.CodeInvalidID},
		{conversationsPath + "/" + someID + "/messages", promptBody("a"), api.CodeNotFound},
		{conversationsPath + "/" + someID + "/sandbox", "", api.CodeNotFound},
		{conversationsPath + "/x/sandbox/" + someID, promptBody("a"), api.CodeInvalidID},
		{conversationsPath + "/" + someID + "/sandbox/Not_A_Name", promptBody("a"), api.CodeInvalidID},
		{path + "/turns/" + s.turn() + "/cancel", "", api.CodeTurnFinished},
		{path + "/turns/x/cancel", "", api.CodeInvalidID},
		{path + "/turns/" + someID + "/cancel", "", api.CodeNotFound},
		{path + "/turns/" + someID + "/cancel", `{"reason":1}`, api.CodeInvalidRequest},
		{other + "/turns/" + s.turn() + "/cancel", "", api.CodeNotFound},
	} {
		w.post(bad.path, bad.body).fails(bad.code)
	}
	for path, code := range map[string]api.Code{
		conversationsPath + "/x":                             api.CodeInvalidID,
		conversationsPath + "/" + someID:                     api.CodeNotFound,
		conversationsPath + "?cursor=x":                      api.CodeInvalidCursor,
		conversationsPath + "?sandbox_id=Not_A_Name":         api.CodeInvalidID,
		path + "/messages/x":                                 api.CodeInvalidID,
		path + "/messages/" + someID:                         api.CodeNotFound,
		path + "/messages?order=random":                      api.CodeInvalidRequest,
		path + "/messages?limit=0":                           api.CodeInvalidRequest,
		path + "/messages?cursor=x":                          api.CodeInvalidCursor,
		path + "/messages?order=desc&cursor=" + cursors:      api.CodeInvalidCursor,
		other + "/messages?cursor=" + cursors:                api.CodeInvalidCursor,
		path + "/turns?cursor=" + cursors:                    api.CodeInvalidCursor,
		path + "/turns/x":                                    api.CodeInvalidID,
		path + "/turns/" + someID:                            api.CodeNotFound,
		other + "/turns/" + s.turn():                         api.CodeNotFound,
		other + "/turns/" + s.turn() + "/events":             api.CodeNotFound,
		path + "/turns/" + s.turn() + "/events?raw=perhaps":  api.CodeInvalidRequest,
		path + "/turns/" + s.turn() + "/events?afetr=1":      api.CodeInvalidRequest,
		usagePath + "?from=yesterday":                        api.CodeInvalidRequest,
		usagePath + "?from=2026-11-02&to=2026-11-01":         api.CodeInvalidRequest,
		usagePath + "?from=2020-01-01&to=2026-11-01":         api.CodeInvalidRequest,
		usagePath + "?group_by=cat":                          api.CodeInvalidRequest,
		usagePath + "?conversation_id=x":                     api.CodeInvalidID,
		conversationsPath + "/" + someID + "/export":         api.CodeNotFound,
		conversationsPath + "/" + someID + "/messages":       api.CodeNotFound,
		conversationsPath + "/" + someID + "/turns":          api.CodeNotFound,
		conversationsPath + "/x/turns/" + someID + "/events": api.CodeInvalidID,
		conversationsPath + "/" + c.ID + "/turns/x/events":   api.CodeInvalidID,
		conversationsPath + "?sandbox_id=no-such-sandbox":    api.CodeNotFound,
	} {
		(answer{t, 0, nil, nil}).from(w.get(path)).fails(code)
	}
	// Nothing of it was stored.
	if got := into[api.List[api.Conversation]](w.get(conversationsPath).is(http.StatusOK)); len(got.Items) != 2 {
		t.Errorf("%+v", got)
	}
	if got := into[api.Conversation](w.get(path).is(http.StatusOK)); got.Stats.MessagesExchanged != 2 {
		t.Errorf("%+v", got)
	}
}

// The largest prompt, and its longest spelling.
func TestLargePromptsArrive(t *testing.T) {
	w := newTalks(t)
	path, _ := w.new("")
	plain := strings.Repeat("x", 1<<20)
	if got := w.prompt(path+"/messages", plain).rest(); said(got) != plain {
		t.Error("it was not said")
	}
	escaped := `{"prompt":"` + strings.Repeat(`\u0041`, 1<<20) + `"}`
	if got := w.follow(http.MethodPost, path+"/messages", escaped).rest(); said(got) != strings.Repeat("A", 1<<20) {
		t.Error("it was not said")
	}
}

func TestServerWithoutConversations(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{conversationsPath, conversationsPath + "/" + someID, conversationsPath + "/" + someID + "/turns/" + someID + "/events"} {
		s.get(path).fails(api.CodeUnsupported)
	}
	s.post(conversationsPath, "").fails(api.CodeUnsupported)
	s.post(conversationsPath+"/"+someID+"/messages", promptBody("x")).fails(api.CodeUnsupported)
}

// What waits in the outbox shows.
func TestUndeliveredMessagesShow(t *testing.T) {
	w := newTalks(t)
	path, c := w.new("")
	if err := w.db.In("acme").Outgoing().Enqueue(t.Context(), store.Message{ID: exchange.NewID(), Kind: store.OutboxMessage, Ref: c.ID, Payload: json.RawMessage(`{"id":"x","conversation_id":"y"}`)}); err != nil {
		t.Fatal(err)
	}
	got := into[api.Conversation](w.get(path).is(http.StatusOK))
	if got.Undelivered == nil || got.Undelivered.Messages != 1 || got.Undelivered.LastError == "" {
		t.Errorf("%+v", got.Undelivered)
	}
}

func TestUsageIsGrouped(t *testing.T) {
	w := newTalks(t)
	one, c := w.new("")
	two, d := w.new("")
	w.prompt(one+"/messages", "a b").rest()
	w.prompt(one+"/messages", "c").rest()
	w.prompt(two+"/messages", "d e f g h").rest()
	report := func(query string) api.UsageReport {
		return into[api.UsageReport](w.get(usagePath + query).is(http.StatusOK))
	}
	all := report("")
	if all.Total.Messages != 6 || all.Total.Usage.OutputTokens != 8 || all.Total.Usage.InputTokens != 3 || len(all.Items) != 2 || all.Items[0].Model != "script-1" || all.Items[0].Day != all.To {
		t.Errorf("%+v", all)
	}
	by := report("?group_by=conversation&from=" + all.From + "&to=" + all.To)
	if len(by.Items) != 2 || by.Items[0].ConversationID != d.ID || by.Items[0].Usage.OutputTokens != 5 || by.Items[0].Messages != 2 || by.Items[1].ConversationID != c.ID || by.Items[1].Messages != 4 || by.Items[0].Day != "" {
		t.Errorf("%+v", by)
	}
	if got := report("?group_by=day"); len(got.Items) != 1 || got.Items[0].Messages != 6 {
		t.Errorf("%+v", got)
	}
	if got := report("?group_by=day,model,conversation&conversation_id=" + c.ID); got.Total.Messages != 4 || len(got.Items) != 2 || got.Items[0].Usage.OutputTokens != 3 {
		t.Errorf("%+v", got)
	}
	if got := report("?to=2001-01-31"); len(got.Items) != 0 || got.Items == nil || got.From != "2001-01-02" {
		t.Errorf("%+v", got)
	}
	// Deleted conversations stay counted.
	w.remove(two).is(http.StatusNoContent)
	if got := report(""); got.Total.Usage.OutputTokens != 8 {
		t.Errorf("%+v", got)
	}
}
