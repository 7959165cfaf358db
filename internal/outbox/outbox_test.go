package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// place is a database and an outbox over it.
type place struct {
	*outbox.Outbox
	db  *store.DB
	log *journal
}

// journal is what was logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func newPlace(t *testing.T) place {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	j := new(journal)
	return place{outbox.New(db.Outbox(), slog.New(slog.NewTextHandler(j, nil))), db, j}
}

func (p place) put(t *testing.T, kind, ref string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := p.db.In("acme").Outgoing().Enqueue(t.Context(), store.Message{ID: id, Kind: kind, Ref: ref, Payload: []byte(id)}); err != nil {
			t.Fatal(err)
		}
	}
	p.Wake(kind)
}

// left are the ids of what is not delivered.
func (p place) left(t *testing.T) string {
	t.Helper()
	rest, _, err := p.db.In("acme").Outgoing().List(t.Context(), store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range rest {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, " ")
}

// run runs the outbox until the end of the test, or until stop is called.
func (p place) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	testkit.Eventually(t, time.Minute, check)
}

func TestEveryMessageIsDelivered(t *testing.T) {
	testkit.Proves(t, "H5")
	p := newPlace(t)
	var mu sync.Mutex
	got := map[string]int{}
	p.Register("message", func(_ context.Context, m store.Message) error {
		mu.Lock()
		defer mu.Unlock()
		got[string(m.Payload)]++
		if got[m.ID] == 1 && strings.HasSuffix(m.ID, "7") {
			return errors.New("not just now")
		}
		if got[m.ID] == 1 && strings.HasSuffix(m.ID, "8") {
			panic("what a mess")
		}
		return nil
	})
	var ids []string
	for i := range 50 {
		ids = append(ids, fmt.Sprintf("m%02d", i))
	}
	p.put(t, "message", "", ids...)
	p.put(t, "unknown", "", "x") // of another version of the server, which will deliver it
	p.run(t)
	eventually(t, func() error {
		if left := p.left(t); left != "x" {
			return errors.New("left: " + left)
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	for _, id := range ids {
		want := 1
		if strings.ContainsAny(id[2:], "78") {
			want = 2
		}
		if got[id] != want {
			t.Errorf("%s was delivered %d times, not %d", id, got[id], want)
		}
	}
	if said := p.log.String(); !strings.Contains(said, "not just now") || !strings.Contains(said, "panic: what a mess") {
		t.Errorf("log: %s", said)
	}
}

// A kind whose receivers are slow holds up no other.
func TestKindsDoNotWaitForEachOther(t *testing.T) {
	p := newPlace(t)
	release, delivered := make(chan struct{}), make(chan string, 100)
	p.Register("slow", func(ctx context.Context, m store.Message) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	p.Register("fast", func(_ context.Context, m store.Message) error { delivered <- m.ID; return nil })
	p.run(t)
	for i := range 40 {
		p.put(t, "slow", "", fmt.Sprintf("s%d", i))
	}
	p.put(t, "fast", "", "f")
	if got := <-delivered; got != "f" {
		t.Error(got)
	}
	close(release)
	eventually(t, func() error {
		if left := p.left(t); left != "" {
			return errors.New("left: " + left)
		}
		return nil
	})
}

// A message that cannot be delivered stays, with what is wrong with it, and is tried at once when asked for.
func TestFlushDeliversWhatIsAboutOneThing(t *testing.T) {
	testkit.Proves(t, "H5")
	p := newPlace(t)
	var got []string
	broken := true
	p.Register("message", func(_ context.Context, m store.Message) error {
		if broken && m.ID == "m2" {
			return errors.New("no such table")
		}
		got = append(got, m.ID)
		return nil
	})
	p.put(t, "message", "a", "m1", "m2", "m3")
	p.put(t, "message", "b", "m4")
	if err := p.Flush(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Flush(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "no such table") {
			t.Fatalf("flushed: %v", err)
		}
		if strings.Join(got, " ") != "m1" {
			t.Errorf("delivered %v", got)
		}
		if n, why, err := p.db.In("acme").Outgoing().Count(t.Context(), "a"); err != nil || n != 2 || why != "no such table" {
			t.Errorf("%d wait: %q, %v", n, why, err)
		}
	}
	broken = false
	if err := p.Flush(t.Context(), "a"); err != nil || strings.Join(got, " ") != "m1 m2 m3" || p.left(t) != "m4" {
		t.Errorf("%v: delivered %v, left %s", err, got, p.left(t))
	}
}

func TestWhatCannotBeDeliveredIsGivenUpWithWords(t *testing.T) {
	p := newPlace(t)
	p.Register("webhook", func(context.Context, store.Message) error {
		return fmt.Errorf("%w: nobody is there", outbox.ErrDrop)
	})
	p.put(t, "webhook", "a", "m")
	if err := p.Flush(t.Context(), "a"); err != nil || p.left(t) != "" {
		t.Errorf("%v, left %s", err, p.left(t))
	}
	if said := p.log.String(); !strings.Contains(said, "level=ERROR") || !strings.Contains(said, "nobody is there") || !strings.Contains(said, "message_id=m") {
		t.Error(said)
	}
	p.Wake("nosuch")
}

// What a server that goes has begun is not held against the message, and the next one goes on at once.
func TestServerThatGoesLeavesItsMessages(t *testing.T) {
	p := newPlace(t)
	begun := make(chan struct{})
	p.Register("message", func(ctx context.Context, _ store.Message) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	p.put(t, "message", "a", "m")
	stop := p.run(t)
	<-begun
	stop()
	next := outbox.New(p.db.Outbox(), slog.New(slog.DiscardHandler))
	delivered := make(chan store.Message, 1)
	next.Register("message", func(_ context.Context, m store.Message) error { delivered <- m; return nil })
	place{next, p.db, p.log}.run(t)
	if m := <-delivered; m.LastError != "" || m.Attempts != 2 {
		t.Errorf("%+v", m)
	}
}

// Who waits for a delivery no longer than a moment has it written down why that was not enough; and however
// often that happens, the next try does not move away.
func TestFlushThatRunsOutOfTimeSaysWhy(t *testing.T) {
	testkit.Proves(t, "H5")
	p := newPlace(t)
	p.Register("message", func(ctx context.Context, _ store.Message) error {
		<-ctx.Done()
		return errors.New("the table does not answer")
	})
	for i := range 8 { // kinds without a message about it
		p.Register(fmt.Sprint("other", i), func(context.Context, store.Message) error { return nil })
	}
	p.put(t, "message", "a", "m1")
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_ = p.Flush(ctx, "a") // it may not even have got as far as the claim
		cancel()
	}
	testkit.Eventually(t, time.Minute, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Flush(ctx, "a"); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("flushed: %v", err)
		}
		if n, why, err := p.db.In("acme").Outgoing().Count(t.Context(), "a"); err != nil || n != 1 || why != "the table does not answer" {
			return fmt.Errorf("%d wait: %q, %w", n, why, err)
		}
		return nil
	})
}
