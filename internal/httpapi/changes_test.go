package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	berth "github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// change is the next event of a stream of changes but heartbeats, and its id.
func (s *watcher) change() (id string, e api.ChangeEvent) {
	s.t.Helper()
	for s.lines.Scan() {
		switch field, value, _ := strings.Cut(s.lines.Text(), ": "); field {
		case "id":
			id = value
		case "data":
			checkEvent(s.t, api.ChangeEvents, value)
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				s.t.Fatal(err)
			}
			if e.Type != api.EventHeartbeat {
				return id, e
			}
		}
	}
	s.t.Fatalf("the stream ended: %v", s.lines.Err())
	return "", e
}

// two runs the test with two servers over PostgreSQL, and with one over SQLite, which allows no more.
func two(t *testing.T, test func(t *testing.T, a, b *site)) {
	t.Run("sqlite", func(t *testing.T) { s := newSite(t); test(t, s, s) })
	t.Run("postgres", func(t *testing.T) {
		at, dir := store.Options{DatabaseURL: storetest.Postgres(t)}, t.TempDir()
		test(t, newSiteOn(t, at, dir), newSiteOn(t, at, dir))
	})
}

// A watcher sees the changes that any server makes, once and in order, however often its connection is cut.
func TestWatcherMissesAndRepeatsNothing(t *testing.T) {
	testkit.Proves(t, "X6")
	two(t, func(t *testing.T, a, b *site) {
		c, err := berth.New(b.server.URL, b.read, berth.WithAttempts(50))
		if err != nil {
			t.Fatal(err)
		}
		begin, err := store.NewChangeLog(a.db).End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), long)
		defer stop()
		const boxes = 12
		var seen []string
		for e, err := range c.Changes(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == api.EventReset {
				if len(seen) > 0 {
					t.Fatal("a second reset")
				}
				go func() {
					for n := range boxes {
						_, _ = a.send(ctx, call{method: http.MethodPost, path: sandboxesPath, key: a.write, body: fmt.Sprintf(`{"name":"box%d"}`, n)})
						if n%4 == 0 {
							b.server.CloseClientConnections()
						}
					}
				}()
				continue
			}
			seen = append(seen, e.ID+" "+e.State)
			running := 0
			for _, one := range seen {
				if strings.HasSuffix(one, " running") {
					running++
				}
			}
			if running == boxes {
				break
			}
		}
		logged, _, err := store.NewChangeLog(a.db).Read(t.Context(), a.db.In("acme"), begin)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, l := range logged {
			want = append(want, l.ID+" "+l.State)
		}
		if len(seen) > len(want) || !slices.Equal(seen, want[:len(seen)]) {
			t.Errorf("seen\n%s\ninstead of\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestStreamOfChanges(t *testing.T) {
	talksOnBoth(t, func(t *testing.T, w *talks) {
		const path = "/api/v1/events"
		ann, bob := w.member("ann"), w.member("bob")
		anns := w.watch(http.MethodGet, path, "", "Authorization", "Bearer "+ann.key)
		bobs := w.watch(http.MethodGet, path, "", "Authorization", "Bearer "+bob.key)
		first, e := anns.change()
		if e.Type != api.EventReset || anns.res.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("first %+v", e)
		}
		bobs.change()
		conv := into[api.Conversation](ann.do(http.MethodPost, conversationsPath, `{}`).is(http.StatusCreated))
		ann.do(http.MethodPost, conversationsPath+"/"+conv.ID+"/messages", `{"prompt":"hello"}`).is(http.StatusOK)
		var types []string
		for !slices.Contains(types, "turn completed") {
			_, e := anns.change()
			types = append(types, strings.TrimSpace(e.Type+" "+e.Status))
			if e.Type == api.EventTurn && e.ConversationID != conv.ID || e.Type == api.EventConversation && e.ID != conv.ID {
				t.Errorf("%+v", e)
			}
		}
		if !slices.Contains(types, "turn running") || !slices.Contains(types, "sandbox") || !slices.Contains(types, "conversation") {
			t.Errorf("ann saw %q", types)
		}
		own := into[api.Conversation](bob.do(http.MethodPost, conversationsPath, `{}`).is(http.StatusCreated))
		if _, e := bobs.change(); e.ID != own.ID {
			t.Errorf("bob saw %+v", e)
		}
		if _, e := w.watch(http.MethodGet, path+"?after="+first, "", "Authorization", "Bearer "+ann.key).change(); e.Type != api.EventConversation || e.ID != conv.ID {
			t.Errorf("from the first id on: %+v", e)
		}
		if _, e := w.watch(http.MethodGet, path, "", "Last-Event-ID", fmt.Sprintf("1-1-0-%d", time.Now().Add(-time.Hour).UnixMilli())).change(); e.Type != api.EventReset {
			t.Errorf("after an id of an hour ago: %+v", e)
		}
		for _, bad := range []string{"x", "1-2-3", "2-1-0-0", "1-1-0-0 ", "-1--1-0-0", "1-1-0-99999999999999999999"} {
			w.do(call{path: path + "?after=" + strings.ReplaceAll(bad, " ", "%20"), key: w.read}).fails(api.CodeInvalidRequest)
		}
		w.do(call{path: path}).fails(api.CodeUnauthenticated)
		w.do(call{path: path + "?from=x", key: w.read}).fails(api.CodeInvalidRequest)
	})
}
