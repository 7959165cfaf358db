package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// talk makes a conversation in a sandbox of its own.
func talk(t testing.TB, db *store.DB) store.Conversation {
	t.Helper()
	c, made, err := db.In(acme).CreateConversation(t.Context(), store.Conversation{Template: "demo", Sandbox: store.NewID(), OwnSandbox: true})
	noError(t, err)
	if !made {
		t.Fatal("a new conversation is not new")
	}
	return c
}

// asking is a new turn of the conversation.
func asking(c store.Conversation) store.NewTurn {
	return store.NewTurn{
		Turn:   store.Turn{ID: store.NewID(), Conversation: c.ID, Sandbox: c.Sandbox, Prompt: "hello", Template: "demo"},
		Places: 1, MostQueue: 3,
		Begin: func(t store.Turn) ([]byte, [][]byte, error) {
			m, err := json.Marshal(api.Message{ID: t.Message, ConversationID: t.Conversation, Role: api.RoleUser, CreatedAt: t.CreatedAt})
			return m, nil, err
		},
	}
}

func begin(t testing.TB, db *store.DB, n store.NewTurn) store.Turn {
	t.Helper()
	turn, added, err := db.In(acme).Turns().Add(t.Context(), n)
	noError(t, err)
	if !added {
		t.Fatal("a new turn is not new")
	}
	return turn
}

func take(t testing.TB, db *store.DB, id, holder string) (store.Lease, store.Turn) {
	t.Helper()
	l, turn, ok, err := db.TurnRuns().Take(t.Context(), id, holder, "here")
	noError(t, err)
	if !ok {
		t.Fatalf("turn %s is not given to %s", id, holder)
	}
	return l, turn
}

func words(texts ...string) (events [][]byte) {
	for _, text := range texts {
		events = append(events, fmt.Appendf(nil, `{"type":"text","text":%q}`, text))
	}
	return events
}

func readLog(t testing.TB, db *store.DB, turn string, after int64) (events []string) {
	t.Helper()
	parts, err := db.TurnRuns().ReadLog(t.Context(), turn, after, 1<<20)
	noError(t, err)
	for _, p := range parts {
		if p.First != after+int64(len(events))+1 {
			t.Fatalf("a part begins at %d after %d events behind %d", p.First, len(events), after)
		}
		for _, e := range p.Events {
			events = append(events, string(e))
		}
	}
	return events
}

func TestTurnsOfAConversationTakeTurns(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		c := talk(t, db)
		one := begin(t, db, asking(c))
		if !one.Placed || one.Status != store.TurnRunning || one.Reply <= one.Message {
			t.Fatalf("the first turn is %+v", one)
		}
		again, added, err := db.In(acme).Turns().Add(t.Context(), func() store.NewTurn { n := asking(c); n.ID = one.ID; return n }())
		noError(t, err)
		if added || again.ID != one.ID || again.Message != one.Message {
			t.Errorf("the same turn again is %+v, added %v", again, added)
		}
		_, _, err = db.In(acme).Turns().Add(t.Context(), asking(c))
		wantCode(t, err, api.CodeTurnRunning)
		waits := asking(c)
		waits.Queue = true
		two := begin(t, db, waits)
		if two.Placed || two.Status != store.TurnQueued || two.Message <= one.Reply {
			t.Fatalf("the second turn is %+v", two)
		}
		if _, ok, err := db.TurnRuns().Admit(t.Context(), c.Sandbox, 1); err != nil || ok {
			t.Fatalf("a turn is placed beside one that runs: %v, %v", ok, err)
		}
		if _, ok, err := db.TurnRuns().Admit(t.Context(), c.Sandbox, 5); err != nil || ok {
			t.Fatalf("a second turn of a conversation runs: %v, %v", ok, err)
		}
		l, _ := take(t, db, one.ID, "a")
		_, err = db.TurnRuns().End(t.Context(), l, store.Ending{Outcome: json.RawMessage(`{}`), Reply: []byte(`{}`), Session: "s", Used: true})
		noError(t, err)
		done, err := db.TurnRuns().Finish(t.Context(), l, api.TurnCompleted, json.RawMessage(`{}`), store.Append{Events: words("bye")}, nil)
		noError(t, err)
		if !done.Finished() || done.Placed || done.Status != api.TurnCompleted {
			t.Errorf("the turn that ended is %+v", done)
		}
		placed, ok, err := db.TurnRuns().Admit(t.Context(), c.Sandbox, 1)
		noError(t, err)
		if !ok || placed.ID != two.ID || !placed.Placed || placed.Status != store.TurnRunning {
			t.Errorf("placed is %+v, %v", placed, ok)
		}
		c, err = db.In(acme).Conversation(t.Context(), c.ID)
		noError(t, err)
		if c.Session != "s" || c.SessionTurns != 1 || c.LastMessage != two.Reply {
			t.Errorf("the conversation is %+v", c)
		}
		_, err = db.In(acme).Turns().Cancel(t.Context(), one.ID, "late")
		wantCode(t, err, api.CodeTurnFinished)
		_, err = db.In("other").Turns().Cancel(t.Context(), two.ID, "not mine")
		wantCode(t, err, api.CodeNotFound)
	})
}

func TestConversationKeepsWhatItIs(t *testing.T) {
	testkit.Proves(t, "C1")
	withDB(t, func(t *testing.T, db *store.DB) {
		want := store.Conversation{
			ID: store.NewID(), Account: "ann", Title: "a talk", Agent: "coder", Template: "demo", Metadata: map[string]string{"k": "v"},
		}
		made, created, err := db.In(acme).CreateConversation(t.Context(), want)
		noError(t, err)
		again, second, err := db.In(acme).CreateConversation(t.Context(), want)
		noError(t, err)
		if !created || second || again.ID != made.ID {
			t.Errorf("made %v, then %v", created, second)
		}
		linked, err := db.In(acme).LinkSandbox(t.Context(), want.ID, "", "box", true)
		noError(t, err)
		other, err := db.In(acme).LinkSandbox(t.Context(), want.ID, "", "another", true)
		noError(t, err)
		if linked.Sandbox != "box" || other.Sandbox != "box" || !other.OwnSandbox {
			t.Errorf("linked to %q, then to %q", linked.Sandbox, other.Sandbox)
		}
		noError(t, db.In(acme).SetExtra(t.Context(), want.ID, map[string]float64{"files": 1}))
		noError(t, db.In(acme).SetExtra(t.Context(), want.ID, map[string]float64{"lines": 2}))
		noError(t, db.In(acme).SetTitle(t.Context(), want.ID, "another talk"))
		got, err := db.In(acme).Conversation(t.Context(), want.ID)
		noError(t, err)
		if got.Account != "ann" || got.Title != "another talk" || got.Agent != "coder" || got.Template != "demo" || got.Metadata["k"] != "v" ||
			got.Tenant != acme || got.Extra["files"] != 1 || got.Extra["lines"] != 2 || got.Stats != (store.Totals{}) {
			t.Errorf("it is %+v", got)
		}
		_, err = db.In("other").Conversation(t.Context(), want.ID)
		wantCode(t, err, api.CodeNotFound)
		theirs, created, err := db.In("other").CreateConversation(t.Context(), want)
		noError(t, err)
		if !created || theirs.ID == want.ID || sandbox.PublicID(theirs.ID) != want.ID {
			t.Errorf("another tenant's conversation with the id is %+v", theirs)
		}
		page, _, err := db.In(acme).Conversations(t.Context(), "box", store.Page{})
		noError(t, err)
		if len(page) != 1 || page[0].ID != want.ID {
			t.Errorf("listed %+v", page)
		}
		there, err := db.In(acme).DeleteConversation(t.Context(), want.ID)
		noError(t, err)
		gone, err := db.In(acme).DeleteConversation(t.Context(), want.ID)
		noError(t, err)
		if !there || gone {
			t.Errorf("deleted %v, then %v", there, gone)
		}
		_, err = db.In(acme).Conversation(t.Context(), want.ID)
		wantCode(t, err, api.CodeDeleted)
		wrong, asked, err := db.Check(t.Context())
		noError(t, err)
		if len(wrong) > 0 || asked < 5 {
			t.Errorf("%d questions, wrong: %v", asked, wrong)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		c := talk(t, db)
		begin(t, db, asking(c))
		for range 3 {
			n := asking(c)
			n.Queue = true
			begin(t, db, n)
		}
		n := asking(c)
		n.Queue = true
		_, _, err := db.In(acme).Turns().Add(t.Context(), n)
		wantCode(t, err, api.CodeQueueFull)
	})
}

// Racers of many conversations in one sandbox never have more places than there are.
func TestPlacesOfASandboxAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 4)
		shared := store.NewID()
		var placed atomic.Int64
		var all []store.Conversation
		for range 12 {
			c, _, err := dbs[0].In(acme).CreateConversation(t.Context(), store.Conversation{Sandbox: shared})
			noError(t, err)
			all = append(all, c)
		}
		race(len(all), func(i int) {
			n := asking(all[i])
			n.Places = 3
			_, _, err := dbs[i%4].In(acme).Turns().Add(t.Context(), n)
			switch {
			case err == nil:
				placed.Add(1)
			case fault.CodeOf(err) != api.CodeTurnRunning:
				t.Error(err)
			}
		})
		if placed.Load() != 3 {
			t.Errorf("%d turns run, want 3", placed.Load())
		}
	})
}

func TestLogIsDenseAndFenced(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		c := talk(t, db)
		turn := begin(t, db, asking(c))
		first, _ := take(t, db, turn.ID, "a")
		if _, _, ok, err := db.TurnRuns().Take(t.Context(), turn.ID, "b", "here"); err != nil || ok {
			t.Fatalf("a turn that is held is given away: %v, %v", ok, err)
		}
		_, err := db.TurnRuns().BeginAttempt(t.Context(), first, 0, "session", false, nil)
		noError(t, err)
		appends := func(l store.Lease, after int64, events ...string) store.TurnAppend {
			return store.TurnAppend{Lease: l, Append: store.Append{After: after, To: 10 * (after + 1), State: json.RawMessage(`{"a":1}`), Events: words(events...)}}
		}
		expect := func(want []bool, batch ...store.TurnAppend) {
			t.Helper()
			done, err := db.TurnRuns().Append(t.Context(), batch)
			noError(t, err)
			if !slices.Equal(done, want) {
				t.Fatalf("appended %v, want %v", done, want)
			}
		}
		expect([]bool{true}, appends(first, 0, "one", "two"))
		noError(t, db.Leases().Release(t.Context(), first))
		second, taken := take(t, db, turn.ID, "b")
		if taken.Session != "session" || taken.Attempt != 1 {
			t.Fatalf("the successor finds %+v", taken)
		}
		parts, err := db.TurnRuns().ReadLog(t.Context(), turn.ID, 0, 1)
		noError(t, err)
		if len(parts) != 1 || parts[0].To != 10 || string(parts[0].State) != `{"a":1}` {
			t.Fatalf("the successor finds %+v", parts)
		}
		expect([]bool{false, true, false},
			appends(first, 2, "stale"), appends(second, 2, "three"), appends(store.Lease{ID: turn.ID, Epoch: 99}, 3, "never"))
		expect([]bool{false}, appends(second, 2, "again"))
		moved, err := db.TurnRuns().Advance(t.Context(), second, store.Append{After: 3, To: 35})
		noError(t, err)
		if moved.Seq != 3 || moved.ReadTo != 35 {
			t.Errorf("a step without events leads to %+v", moved)
		}
		_, err = db.TurnRuns().Advance(t.Context(), first, store.Append{After: 3, To: 99})
		if !errors.Is(err, fault.ErrStale) {
			t.Errorf("a holder of the past reads on: %v", err)
		}
		// A crash of the database may have lost what was appended last.
		expect([]bool{false}, appends(second, 5, "behind a gap"))
		_, err = db.TurnRuns().Advance(t.Context(), second, store.Append{After: 5, To: 99})
		if !errors.Is(err, fault.ErrStale) {
			t.Errorf("a holder reads on behind a gap: %v", err)
		}
		_, err = db.TurnRuns().BeginAttempt(t.Context(), second, 5, "x", false, nil)
		if !errors.Is(err, fault.ErrStale) {
			t.Errorf("a holder begins an attempt behind a gap: %v", err)
		}
		_, err = db.TurnRuns().End(t.Context(), second, store.Ending{Append: store.Append{After: 2, Events: words("again")}, Outcome: json.RawMessage(`{}`)})
		if !errors.Is(err, fault.ErrStale) {
			t.Errorf("an end took the place of an event: %v", err)
		}
		got := readLog(t, db, turn.ID, 0)
		if len(got) != 3 || !strings.Contains(got[2], "three") {
			t.Errorf("the log is %q", got)
		}
		if got := readLog(t, db, turn.ID, 1); len(got) != 2 || !strings.Contains(got[0], "two") {
			t.Errorf("the log behind 1 is %q", got)
		}
		_, err = db.TurnRuns().BeginAttempt(t.Context(), first, 3, "x", false, nil)
		if !errors.Is(err, fault.ErrStale) {
			t.Errorf("a holder of the past begins an attempt: %v", err)
		}
		_, err = db.TurnRuns().Finish(t.Context(), first, api.TurnFailed, nil, store.Append{After: 3, To: 35}, nil)
		if !errors.Is(err, fault.ErrStale) {
			t.Errorf("a holder of the past finishes the turn: %v", err)
		}
	})
}

func TestTurnsThatNobodyRunsAreFound(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		held, left, waits := talk(t, db), talk(t, db), talk(t, db)
		a, b := begin(t, db, asking(held)), begin(t, db, asking(left))
		begin(t, db, asking(waits))
		queued := asking(waits)
		queued.Queue = true
		q := begin(t, db, queued)
		take(t, db, a.ID, "a")
		l, _ := take(t, db, b.ID, "b")
		noError(t, db.Leases().Release(t.Context(), l))
		ids := func() (ids []string) {
			turns, err := db.TurnRuns().ListDue(t.Context(), "here", 10)
			noError(t, err)
			for _, t := range turns {
				ids = append(ids, t.ID)
			}
			return ids
		}
		if got := ids(); slices.Contains(got, a.ID) || !slices.Contains(got, b.ID) || slices.Contains(got, q.ID) || len(got) != 2 {
			t.Errorf("found %v", got)
		}
		_, err := db.In(acme).Turns().Cancel(t.Context(), q.ID, "changed my mind")
		noError(t, err)
		if got := ids(); !slices.Contains(got, q.ID) {
			t.Errorf("a cancelled turn that waits is not found: %v", got)
		}
	})
}

func TestMessagesAreCountedOnce(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		c := talk(t, db)
		turn := begin(t, db, asking(c))
		pending, _, err := db.In(acme).Outgoing().List(t.Context(), store.Page{})
		noError(t, err)
		if len(pending) != 1 || pending[0].ID != turn.Message || pending[0].Ref != c.ID || pending[0].Kind != store.OutboxMessage {
			t.Fatalf("the outbox holds %+v", pending)
		}
		m := api.Message{ID: turn.Message, ConversationID: c.ID, Model: "m", CreatedAt: time.Date(2026, 11, 15, 1, 2, 3, 0, time.UTC),
			Usage: api.Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4}, CostUSD: 0.25}
		sum, err := db.In(acme).UsageCounts().CountMessage(t.Context(), pending[0], m, true)
		noError(t, err)
		if sum != store.TotalsOf(m) {
			t.Errorf("the messages add up to %+v", sum)
		}
		if _, err := db.In(acme).UsageCounts().CountMessage(t.Context(), pending[0], m, true); !errors.Is(err, fault.ErrStale) {
			t.Errorf("a message is counted twice: %v", err)
		}
		c, err = db.In(acme).Conversation(t.Context(), c.ID)
		noError(t, err)
		want := api.Stats{MessagesExchanged: 1, TotalInputTokens: 1, TotalOutputTokens: 2, TotalCacheTokens: 7, TotalCacheReadTokens: 3, TotalCacheWriteTokens: 4, TotalCostUSD: 0.25}
		if c.Stats.Stats() != want {
			t.Errorf("stats are %+v", c.Stats.Stats())
		}
		used, err := db.In(acme).UsageCounts().Usage(t.Context(), "2026-11-01", "2026-11-30", "", true, 10)
		noError(t, err)
		if len(used) != 1 || used[0].Day != "2026-11-15" || used[0].Output != 2 || used[0].Conversation != c.ID || used[0].CostNanos != 250_000_000 {
			t.Errorf("usage is %+v", used)
		}
		if used, err = db.In("other").UsageCounts().Usage(t.Context(), "2026-11-01", "2026-11-30", "", false, 10); err != nil || len(used) != 0 {
			t.Errorf("another tenant sees %v, %v", used, err)
		}
	})
}

// A holder that gave up waiting for an append may come back while the database is still at it. What it brings then
// is refused, and what comes with it of other turns is not.
func TestAppendThatWasUnderWay(t *testing.T) {
	testkit.Proves(t, "C4")
	h := harness{"postgres", store.Options{DatabaseURL: migrated.New(t).URL, LeaseTTL: long}}
	db, raw := h.open(t), h.rawDB(t)
	var batch []store.TurnAppend
	for range 2 {
		turn := begin(t, db, asking(talk(t, db)))
		l, _ := take(t, db, turn.ID, "a")
		batch = append(batch, store.TurnAppend{Lease: l, Append: store.Append{To: 1, Events: words("again")}})
	}
	before, err := raw.BeginTx(t.Context(), nil)
	noError(t, err)
	_, err = before.Exec(`insert into turn_log (turn, first, last, data, read_to, state) values ($1, 1, 1, $2, 1, '')`, batch[0].Lease.ID, words("once")[0])
	noError(t, err)
	type answer struct {
		done []bool
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		done, err := db.TurnRuns().Append(t.Context(), batch)
		answers <- answer{done, err}
	}()
	testkit.Eventually(t, 30*time.Second, func() error {
		var waiting int
		err := raw.QueryRow(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting)
		if err == nil && waiting == 0 {
			err = errors.New("nobody waits for the append before")
		}
		return err
	})
	noError(t, before.Commit())
	if got := <-answers; got.err != nil || !slices.Equal(got.done, []bool{false, true}) {
		t.Errorf("appended %v, %v", got.done, got.err)
	}
	if got := readLog(t, db, batch[0].Lease.ID, 0); len(got) != 1 || !strings.Contains(got[0], "once") {
		t.Errorf("the log is %q", got)
	}
}
