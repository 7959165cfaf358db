package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// replicas are servers with one database, each with its own connections.
func replicas(t *testing.T, n int, boxes map[string]*engine.Handle) []*site {
	t.Helper()
	url := pgtest.New(t).URL
	sites := make([]*site, n)
	for i := range sites {
		db, err := store.Open(t.Context(), store.Options{DatabaseURL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		o := options(boxes)
		o.Calls = db.ToolCalls()
		server := httptest.NewServer(Handler(o))
		t.Cleanup(server.Close)
		sites[i] = &site{t, boxes, server.URL}
	}
	return sites
}

func (s *site) cancelled(path, id, caller string) {
	s.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
	if status, answer, _ := s.post(path, body, "Authorization", caller); status != http.StatusAccepted {
		s.t.Errorf("%d %s", status, answer)
	}
}

// down is a database that does not answer.
type down struct{ Calls }

func (down) Begin(context.Context, store.ToolCall) error {
	return fault.Errorf("record", api.CodeStoreUnavailable, "the database is away")
}

func (down) Cancel(context.Context, string, string) ([]string, error) {
	return nil, fault.Errorf("cancel", api.CodeStoreUnavailable, "the database is away")
}

func (down) CancelAll(context.Context, string) ([]string, error) {
	return nil, fault.Errorf("cancel", api.CodeStoreUnavailable, "the database is away")
}

// Without the database a call runs, and a notice that may not have reached its call says so.
func TestCallRunsWithoutItsRecord(t *testing.T) {
	o := options(map[string]*engine.Handle{"/a": tooltest.New(t).Handle()})
	o.Calls = down{}
	server := httptest.NewServer(Handler(o))
	defer server.Close()
	s := &site{t, nil, server.URL}
	if _, body, _ := s.post("/a", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"echo hello"}}}`); !strings.Contains(body, "hello") {
		t.Errorf("%s", body)
	}
	status, body, _ := s.post("/a", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "store_unavailable") {
		t.Errorf("%d %s", status, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.url+"/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusServiceUnavailable || res.Body.Close() != nil {
		t.Errorf("%+v, %v", res, err)
	}
}

// A notice ends a call that another server runs. Another caller, another sandbox and another id end nothing, and
// neither does an id that two clients with one key use at the same time.
func TestCallsAreCancelledThroughAnotherServer(t *testing.T) {
	testkit.Proves(t, "P9")
	box := tooltest.New(t)
	sites := replicas(t, 2, map[string]*engine.Handle{"/a": box.Handle(), "/b": box.Handle()})
	type answer struct{ name, text string }
	answers := make(chan answer, 10)
	begin := func(on *site, id, name, caller string) (ended func()) {
		go func() {
			_, text, _ := on.post("/a", fmt.Sprintf(sleeper, id, name), "Authorization", caller)
			answers <- answer{name, text}
		}()
		return begun(t, box, name)
	}
	one := begin(sites[0], "7", "one", "me")
	theirs := begin(sites[0], "7", "theirs", "another")
	twin, other := begin(sites[0], "8", "twin", "me"), begin(sites[1], "8", "other", "me")
	for _, s := range sites {
		s.cancelled("/b", "7", "me")
		s.cancelled("/a", "9", "me")
		s.cancelled("/a", "8", "me") // which of the two is not known
	}
	sites[1].cancelled("/a", "7", "me")
	next := func() (got answer) {
		t.Helper()
		select {
		case got = <-answers:
		case <-time.After(time.Minute):
			t.Fatal("calls go on")
		}
		if !strings.Contains(got.text, "was cancelled") {
			t.Errorf("%+v", got)
		}
		return got
	}
	if got := next(); got.name != "one" {
		t.Errorf("%+v ended", got)
	}
	one()
	if len(answers) > 0 {
		t.Errorf("%+v ended as well", <-answers)
	}
	// DELETE ends all calls of a caller, on every server.
	for _, caller := range []string{"me", "another"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, sites[1].url+"/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", caller)
		res, err := http.DefaultClient.Do(r)
		if err != nil || res.StatusCode != http.StatusNoContent || res.Body.Close() != nil {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	for range 3 {
		next()
	}
	theirs()
	twin()
	other()
}
