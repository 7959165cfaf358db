package app_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// Every key is sent many times at once to two servers on one database, one of which is killed while
// its effects are made but not answered, and started again. Each key has one effect, and all its
// answers are the same.
func TestOneKeyOneEffect(t *testing.T) {
	t.Parallel()
	keys := testkit.Size(t, "i10.keys")
	url := storetest.Postgres(t)
	env := append(fresh(t), "DATABASE_URL="+url)
	a, b := start(t, env), start(t, env)
	env = append(env, "BERTH_LISTEN="+strings.TrimPrefix(b.url, "http://"))
	s := &sender{urls: []string{a.url, b.url}, answers: map[string]string{}}

	var g errgroup.Group
	g.SetLimit(64)
	halfway, sent := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := range keys {
			if i == keys/2 {
				close(halfway)
			}
			for n := range 2 + rand.IntN(19) {
				g.Go(func() error { return s.send(t.Context(), fmt.Sprintf("key-%d", i), n) })
			}
		}
		sent <- g.Wait()
	}()
	<-halfway
	killInTheWindow(t, b, filepath.Join(value(env, "BERTH_DATA_DIR"), "fake"))
	start(t, env)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d keys, %d requests, %d of them again because of 409 or a lost connection", keys, s.sent, s.again)
	if n := effects(t, url); n != keys {
		t.Errorf("%d keys had %d effects", keys, n)
	}
}

// killInTheWindow slows creates down and kills the server when some of its requests have recorded
// their sandbox and have no answer yet.
func killInTheWindow(t *testing.T, p *process, fakeDir string) {
	d, err := fake.New(fakeDir)
	if err == nil {
		err = fake.SetFaults(fakeDir, []fake.Fault{{Op: fake.Create, Slow: time.Second}})
	}
	if err != nil {
		t.Error(err)
		return
	}
	testkit.Eventually(t, patience, func() error { return inTheWindow(d, p.cmd.Process.Pid) })
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	if err := fake.SetFaults(fakeDir, nil); err != nil {
		t.Error(err)
	}
}

// inTheWindow is nil while the process waits for at least two creates.
func inTheWindow(d *fake.Driver, pid int) error {
	calls, err := d.Log()
	if err != nil {
		return err
	}
	hits := 0
	for _, c := range calls {
		if c.Op == fake.Create && c.PID == pid && c.Outcome == "" {
			hits++
		}
	}
	if hits < 2 {
		return fmt.Errorf("%d creates under way", hits)
	}
	return nil
}

// effects counts the sandboxes there are.
func effects(t *testing.T, url string) int {
	db, err := store.Open(t.Context(), store.Options{DatabaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	n, err := db.In("default").Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// sender sends requests as an impatient client does.
type sender struct {
	urls []string

	mu          sync.Mutex
	answers     map[string]string
	sent, again int
}

func (s *sender) send(ctx context.Context, key string, n int) error {
	for try := 0; ; try++ {
		status, body, err := s.once(ctx, s.urls[(n+try)%len(s.urls)], key)
		s.mu.Lock()
		s.sent++
		s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && status < 300:
			return s.same(key, fmt.Sprint(status, " ", body))
		case err == nil && status != http.StatusConflict && status != http.StatusServiceUnavailable:
			return fmt.Errorf("%s: %d %s", key, status, body)
		}
		s.mu.Lock()
		s.again++
		s.mu.Unlock()
		<-time.After(time.Duration(10+rand.IntN(90)) * time.Millisecond)
	}
}

func (s *sender) once(ctx context.Context, url, key string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/v1/sandboxes", bytes.NewReader([]byte(`{}`)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// same fails when the key was answered otherwise before.
func (s *sender) same(key, answer string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.answers[key]; ok && before != answer {
		return fmt.Errorf("%s was answered with\n%s\nand with\n%s", key, before, answer)
	}
	s.answers[key] = answer
	return nil
}
