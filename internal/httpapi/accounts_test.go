package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// member is a person of the tenant with a key of their own.
type member struct {
	w       *talks
	account string
	key     string
}

func (w *talks) member(name string) member {
	w.t.Helper()
	account := into[api.Account](w.post(accountsPath, `{"name":"`+name+`"}`).is(http.StatusCreated))
	key := into[api.NewKey](w.post(keysPath, `{"scope":"write","account_id":"`+account.ID+`"}`).is(http.StatusCreated))
	return member{w, account.ID, key.Secret}
}

func (m member) do(method, path, body string, header ...string) answer {
	m.w.t.Helper()
	c := call{method: method, path: path, key: m.key, body: body, header: map[string]string{}}
	for i := 0; i < len(header); i += 2 {
		c.header[header[i]] = header[i+1]
	}
	return m.w.do(c)
}

// A key that is bound to an account sees the conversations, sandboxes, projects and usage of that account
// alone; an administrator sees all.
func TestAccountsAreAWall(t *testing.T) {
	testkit.Proves(t, "E8")
	talksOnBoth(t, func(t *testing.T, w *talks) {
		ann, bob := w.member("ann"), w.member("bob")
		box := into[api.Sandbox](ann.do(http.MethodPost, sandboxesPath, `{"name":"anns"}`).is(http.StatusCreated))
		ann.do(http.MethodPost, projectsPath+"/anns-project/sandbox", "").is(http.StatusCreated)
		conv := into[api.Conversation](ann.do(http.MethodPost, conversationsPath, `{}`).is(http.StatusCreated))
		if conv.AccountID != ann.account {
			t.Errorf("the conversation is for %q", conv.AccountID)
		}
		ann.do(http.MethodPost, conversationsPath+"/"+conv.ID+"/messages", `{"prompt":"hello"}`).is(http.StatusOK)
		conv = into[api.Conversation](ann.do(http.MethodGet, conversationsPath+"/"+conv.ID, "").is(http.StatusOK))
		shared := into[api.Sandbox](w.post(sandboxesPath, `{"name":"shared"}`).is(http.StatusCreated))

		for _, c := range []struct{ method, path, body string }{
			{"GET", sandboxesPath + "/anns", ""}, {"GET", sandboxesPath + "/" + box.ID, ""}, {"GET", sandboxesPath + "/" + box.ID + "/history", ""},
			{"GET", sandboxesPath + "/" + box.ID + "/explain", ""}, {"POST", sandboxesPath + "/anns/stop", ""}, {"POST", sandboxesPath + "/anns/start", ""},
			{"POST", sandboxesPath + "/anns/exec", `{"command":["true"]}`}, {"GET", sandboxesPath + "/anns/files/x", ""}, {"DELETE", sandboxesPath + "/anns", ""},
			{"GET", sandboxesPath + "/anns/versions", ""}, {"GET", sandboxesPath + "/" + conv.SandboxID, ""}, {"GET", sandboxesPath + "/" + shared.ID, ""},
			{"POST", sandboxesPath, `{"name":"anns"}`}, {"POST", sandboxesPath, `{"id":"` + box.ID + `"}`},
			{"GET", projectsPath + "/anns-project/sandbox", ""}, {"POST", projectsPath + "/anns-project/sandbox", ""}, {"DELETE", projectsPath + "/anns-project", ""},
			{"POST", projectsPath + "/anns-project/sandbox/execute", `{"tool_name":"bash","arguments":{"command":"true"}}`},
			{"GET", conversationsPath + "/" + conv.ID, ""}, {"GET", conversationsPath + "/" + conv.ID + "/messages", ""}, {"DELETE", conversationsPath + "/" + conv.ID, ""},
			{"POST", conversationsPath + "/" + conv.ID + "/messages", `{"prompt":"mine"}`}, {"POST", conversationsPath, `{"id":"` + conv.ID + `"}`},
			{"PATCH", conversationsPath + "/" + conv.ID, `{"title":"mine"}`}, {"POST", conversationsPath, `{"sandbox_id":"` + box.ID + `"}`},
			{"POST", conversationsPath, `{"account_id":"` + ann.account + `"}`}, {"POST", "/sandboxes/" + box.ID + "/claude", `{"prompt":"mine"}`},
			{"GET", accountsPath + "/" + ann.account, ""},
		} {
			bob.do(c.method, c.path, c.body).fails(api.CodeNotFound)
		}
		for path, own := range map[string]string{sandboxesPath: box.ID, conversationsPath: conv.ID, projectsPath + "/sandboxes": "anns-project", accountsPath: ann.account} {
			if seen := string(bob.do(http.MethodGet, path, "").is(http.StatusOK).body); strings.Contains(seen, own) || strings.Contains(seen, shared.ID) {
				t.Errorf("%s shows bob %s", path, seen)
			}
			if seen := string(ann.do(http.MethodGet, path, "").is(http.StatusOK).body); !strings.Contains(seen, own) {
				t.Errorf("%s shows ann %s", path, seen)
			}
		}
		if used := into[api.UsageReport](bob.do(http.MethodGet, usagePath, "").is(http.StatusOK)); used.Total.Messages != 0 {
			t.Errorf("bob used %+v", used.Total)
		}
		if used := into[api.UsageReport](ann.do(http.MethodGet, usagePath, "").is(http.StatusOK)); used.Total.Messages != 2 {
			t.Errorf("ann used %+v", used.Total)
		}
		for _, path := range []string{sandboxesPath + "/anns", conversationsPath + "/" + conv.ID, projectsPath + "/anns-project/sandbox"} {
			w.do(call{path: path, key: w.admin}).is(http.StatusOK)
		}
		w.post(conversationsPath, `{"account_id":"not-an-id"}`).fails(api.CodeInvalidID)
		w.post(conversationsPath, `{"account_id":"01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"}`).fails(api.CodeNotFound)
		if c := into[api.Conversation](w.post(conversationsPath, `{"account_id":"`+bob.account+`"}`).is(http.StatusCreated)); c.AccountID != bob.account {
			t.Errorf("made for %q", c.AccountID)
		}
	})
}

// Two accounts that send the same Idempotency-Key get separate answers.
func TestAccountsShareNoIdempotencyKeys(t *testing.T) {
	testkit.Proves(t, "E8")
	w := newTalks(t)
	ann, bob := w.member("ann"), w.member("bob")
	a := into[api.Sandbox](ann.do(http.MethodPost, sandboxesPath, `{}`, idempotencyHeader, "k").is(http.StatusCreated))
	b := into[api.Sandbox](bob.do(http.MethodPost, sandboxesPath, `{}`, idempotencyHeader, "k").is(http.StatusCreated))
	if a.ID == b.ID {
		t.Error("bob was answered with ann's sandbox")
	}
	if again := into[api.Sandbox](ann.do(http.MethodPost, sandboxesPath, `{}`, idempotencyHeader, "k").is(http.StatusCreated)); again.ID != a.ID {
		t.Error("a repeat made another sandbox")
	}
}

func TestAgentOverridesAreCheckedAndMasked(t *testing.T) {
	testkit.Proves(t, "C11")
	w := newTalks(t)
	for body, why := range map[string]string{
		`{"name":"n","overrides":[]}`:                        "expected object",
		`{"name":"n","overrides":{"mdoel":"x"}}`:             "there is no key",
		`{"name":"n","overrides":{"egress":"all"}}`:          "cannot change",
		`{"name":"n","overrides":{"model":7}}`:               "expected string",
		`{"name":"n","overrides":{"profile":"huge"}}`:        "no profile",
		`{"name":"n","overrides":{"env":{"1X":"secret-1"}}}`: "name",
		`{"name":"n","overrides":{"env":["secret-1"]}}`:      "expected",
	} {
		p := w.post(agentsPath, body).fails(api.CodeInvalidRequest)
		text := p.Detail
		for _, f := range p.Errors {
			text += " " + f.Message
		}
		if !strings.Contains(text, why) || strings.Contains(text, "secret-1") {
			t.Errorf("%s: %q", body, text)
		}
	}
	made := into[api.Agent](w.post(agentsPath, `{"name":"a","overrides":{"model":"m","env":{"TOKEN":"secret-1"}}}`).is(http.StatusCreated))
	for _, path := range []string{agentsPath, agentsPath + "/" + made.ID} {
		w.do(call{path: path, key: w.read}).fails(api.CodeForbidden)
		if seen := string(w.do(call{path: path, key: w.write}).is(http.StatusOK).body); strings.Contains(seen, "secret-1") || !strings.Contains(seen, "TOKEN") {
			t.Errorf("%s shows %s", path, seen)
		}
	}
	if seen := string(w.do(call{path: agentsPath + "/" + made.ID, key: w.admin}).is(http.StatusOK).body); !strings.Contains(seen, "secret-1") {
		t.Errorf("an administrator sees %s", seen)
	}
}

// A conversation passes its variables and metadata to its sandbox, with those of its agent below, and goes on
// when its agent is deleted.
func TestConversationMakesItsSandboxAsAsked(t *testing.T) {
	testkit.Proves(t, "C1", "C11")
	talksOnBoth(t, func(t *testing.T, w *talks) {
		agent := into[api.Agent](w.post(agentsPath, `{"name":"a","template":"default","overrides":{"profile":"lite","env":{"A":"agent-value","B":"agent-value"}}}`).is(http.StatusCreated))
		made := w.post(conversationsPath, `{"agent_id":"`+agent.ID+`","env":{"B":"own-value","REPO":"x"},"metadata":{"ticket":"7"}}`).is(http.StatusCreated)
		conv := into[api.Conversation](made)
		if strings.Contains(string(made.body), "own-value") || len(conv.Env) != 2 {
			t.Errorf("made %s", made.body)
		}
		w.remove(agentsPath + "/" + agent.ID).is(http.StatusNoContent)
		w.post(conversationsPath, `{"agent_id":"`+agent.ID+`"}`).fails(api.CodeDeleted)
		w.post(conversationsPath+"/"+conv.ID+"/messages", `{"prompt":"hello"}`).is(http.StatusOK)
		conv = into[api.Conversation](w.get(conversationsPath + "/" + conv.ID).is(http.StatusOK))
		s, err := w.db.In("acme").ByID(t.Context(), conv.SandboxID)
		if err != nil {
			t.Fatal(err)
		}
		if e := s.Spec.Env; e["A"] != "agent-value" || e["B"] != "own-value" || e["REPO"] != "x" || s.Spec.Metadata["ticket"] != "7" || s.Spec.Profile != "lite" || s.Agent != agent.ID {
			t.Errorf("its sandbox is %+v", s)
		}
		w.post(conversationsPath, `{"id":"`+conv.ID+`","env":{"B":"other"}}`).fails(api.CodeSpecMismatch)
		w.post(conversationsPath, `{"sandbox_id":"`+conv.SandboxID+`","env":{"B":"other"}}`).fails(api.CodeInvalidRequest)
		w.post(conversationsPath, `{"env":{"1":"own-value"}}`).fails(api.CodeInvalidRequest)
	})
}

// A conversation can be linked to another sandbox and back. The last conversation that works in a sandbox whose
// owner is gone ends it.
func TestConversationsAreLinkedAndEndTheirSandbox(t *testing.T) {
	testkit.Proves(t, "C10", "O7")
	talksOnBoth(t, func(t *testing.T, w *talks) {
		talk := func(body string) api.Conversation {
			c := into[api.Conversation](w.post(conversationsPath, body).is(http.StatusCreated))
			w.post(conversationsPath+"/"+c.ID+"/messages", `{"prompt":"hello"}`).is(http.StatusOK)
			return into[api.Conversation](w.get(conversationsPath + "/" + c.ID).is(http.StatusOK))
		}
		link := func(c api.Conversation, to string) answer {
			return w.do(call{method: http.MethodPatch, path: conversationsPath + "/" + c.ID, key: w.write, body: `{"sandbox_id":"` + to + `","title":"moved"}`})
		}
		owner, other := talk(`{}`), talk(`{}`)
		moved := into[api.Conversation](link(other, owner.SandboxID).is(http.StatusOK))
		if moved.SandboxID != owner.SandboxID || moved.Title != "moved" {
			t.Errorf("moved to %+v", moved)
		}
		w.post(conversationsPath+"/"+other.ID+"/messages", `{"prompt":"again"}`).is(http.StatusOK)
		link(other, "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10").fails(api.CodeNotFound)

		w.remove(conversationsPath + "/" + owner.ID).is(http.StatusNoContent)
		w.get(sandboxesPath + "/" + owner.SandboxID).is(http.StatusOK) // another one works in it
		w.remove(conversationsPath + "/" + other.ID).is(http.StatusNoContent)
		for _, id := range []string{owner.SandboxID, other.SandboxID} {
			w.get(sandboxesPath + "/" + id).fails(api.CodeDeleted)
		}

		// One that belongs to nothing else than itself stays.
		bare := into[api.Sandbox](w.post(sandboxesPath, `{"name":"bare"}`).is(http.StatusCreated))
		guest := talk(`{"sandbox_id":"` + bare.ID + `"}`)
		w.remove(conversationsPath + "/" + guest.ID).is(http.StatusNoContent)
		w.get(sandboxesPath + "/" + bare.ID).is(http.StatusOK)
	})
}
