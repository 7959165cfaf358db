package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// Each tenant chooses ids on its own: a tenant cannot tell whether another one has an id, and cannot keep it from
// another one by taking it first.
func TestChosenIDs(t *testing.T) {
	testkit.Proves(t, "E2")
	talksOnBoth(t, func(t *testing.T, w *talks) {
		const box, conv = "01970e4b-7f5c-7d31-9d0a-00000000%s", "01970e4b-7f5c-7d31-9d0b-00000000%s"
		id := func(pattern, last string) string { return fmt.Sprintf(pattern, last) }
		first := w.useChosenIDs(w.admin, id(box, "aaaa"), id(conv, "aaaa"))
		foreign := w.useChosenIDs(w.newKey("other", api.ScopeAdmin), id(box, "aaaa"), id(conv, "aaaa"))
		free := w.useChosenIDs(w.newKey("third", api.ScopeAdmin), id(box, "bbbb"), id(conv, "bbbb"))
		for i := range free {
			if foreign[i] != free[i] || first[i] != free[i] {
				t.Errorf("answers for an id that is\nthe tenant's:     %s\nanother tenant's: %s\nfree:             %s", first[i], foreign[i], free[i])
			}
		}
	})
}

// Parts of answers that differ between any two runs: other ids, times, the tenant.
var (
	anyID    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	varying  = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][\d:.]+Z?|"duration_ms":\d+|\b(other|third|acme)\b|key:[0-9a-f-]+|\d+ (ms|s)\b|"next_cursor":"[^"]*"|\d\d:\d\d(:\d\d)? UTC|Running for [^,"]*|last used [^;"]*|in \d+ minutes?`)
	internal = regexp.MustCompile(anyID.String() + `-[a-z]`)
)

// useChosenIDs makes and uses a sandbox and a conversation with the ids, and returns the answers without what differs
// between any two runs.
func (w *talks) useChosenIDs(key, box, conv string) (answers []string) {
	w.t.Helper()
	sandbox, talk := sandboxesPath+"/"+box, conversationsPath+"/"+conv
	var turn string
	for _, c := range []call{
		{path: sandbox}, {path: talk}, {method: "POST", path: sandbox + "/stop"},
		{method: "POST", path: sandboxesPath, body: `{"id":"` + box + `"}`},
		{method: "POST", path: sandboxesPath, body: `{"id":"` + box + `"}`},
		{method: "POST", path: sandboxesPath, body: `{"id":"` + box + `","template":"none"}`},
		{path: sandbox}, {path: sandboxesPath + "?limit=1"}, {path: sandbox + "/explain"}, {path: sandbox + "/history?limit=1"},
		{method: "POST", path: conversationsPath, body: `{"id":"` + conv + `","sandbox_id":"` + box + `"}`},
		{method: "POST", path: conversationsPath, body: `{"id":"` + conv + `","sandbox_id":"` + box + `"}`},
		{path: talk}, {path: conversationsPath + "?sandbox_id=" + box},
		{method: "POST", path: talk + "/messages", body: `{"prompt":"hello"}`},
		{method: "POST", path: talk + "/sandbox/" + box, body: `{"prompt":"again"}`},
		{path: talk + "/turns"}, {path: talk + "/turns/TURN"}, {path: talk + "/turns/TURN/events"}, {path: talk + "/messages"}, {path: talk + "/export"},
		{path: talk + "/export?format=markdown"}, {path: "/api/v1/usage?group_by=conversation"}, {path: "/api/v1/usage?conversation_id=" + conv},
		{method: "POST", path: sandbox + "/stop"}, {path: sandbox}, {method: "POST", path: sandbox + "/start"},
		{method: "POST", path: talk + "/sandbox"}, {method: "PATCH", path: talk, body: `{"title":"x"}`},
		{method: "DELETE", path: talk}, {path: talk}, {method: "POST", path: conversationsPath, body: `{"id":"` + conv + `"}`},
		{method: "DELETE", path: sandbox}, {path: sandbox}, {method: "POST", path: sandboxesPath, body: `{"id":"` + box + `"}`},
	} {
		c.key, c.header = key, map[string]string{requestIDHeader: "same"}
		c.path = strings.Replace(c.path, "TURN", turn, 1)
		got := w.do(c)
		turn = cmp.Or(got.header.Get(api.HeaderTurnID), turn)
		text := fmt.Sprintf("%s %s: %d %s %s", cmp.Or(c.method, http.MethodGet), c.path, got.status, got.header.Get("Location"), got.body)
		if shown := internal.FindString(text + fmt.Sprint(got.header)); shown != "" && !strings.Contains(c.path, shown) {
			w.t.Errorf("an internal id is shown: %s", text)
		}
		text = strings.ReplaceAll(strings.ReplaceAll(text, box, "BOX"), conv, "CONVERSATION")
		answers = append(answers, varying.ReplaceAllString(anyID.ReplaceAllString(text, "ID"), "…"))
	}
	return answers
}
