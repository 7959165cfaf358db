package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTreesAreWhatTheyAreSaidToBe(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		if err := makeTree(dir, 250, 100, 70); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := compareTree(a, b); err != nil || n != 250+70 {
		t.Errorf("%d files and folders, not 320: %v", n, err)
	}
	if err := sameTrees(a, b); err != nil {
		t.Error(err)
	}
	if err := edit(b); err != nil {
		t.Fatal(err)
	}
	if err := sameTrees(a, b); err == nil {
		t.Error("what was changed is said to be the same")
	}
	if err := os.Remove(filepath.Join(b, "file-000000.txt")); err != nil {
		t.Fatal(err)
	}
	if err := sameTrees(b, a); err == nil {
		t.Error("what is missing is said to be the same")
	}
}

// Trips that overlap are not one after another.
func TestTripsAreCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer server.Close()
	p, err := openTrips(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, text := range []string{"a", "b"} {
		answer, err := http.Post(p.endpoint, "text/plain", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got := p.taken(); got != (tripCounts{2, 2}) {
		t.Errorf("%+v", got)
	}
	at := func(from, to int) trip { return trip{time.Unix(int64(from), 0), time.Unix(int64(to), 0)} }
	if n := chain([]trip{at(0, 10), at(1, 3), at(4, 6), at(5, 9), at(6, 8)}); n != 3 {
		t.Errorf("a chain of %d, not 3", n)
	}
}

// The best of the others is the peer, and the first is ours; what went wrong is said of whom.
func TestAContestIsWonByTheBest(t *testing.T) {
	takes := func(name string, ms int) entrant {
		return entrant{name: name, run: func(context.Context) (spent, error) {
			return spent{wall: time.Duration(ms) * time.Millisecond, rss: int64(ms)}, nil
		}}
	}
	f, err := contest(t.Context(), "race", 3, []entrant{takes("ours", 10), takes("slow", 300), takes("fast", 200)})
	if err != nil || f.ours != 0.01 || f.peer != 0.2 || f.rss != 10 || !strings.Contains(f.note, "peer fast") || !strings.Contains(f.note, "slow 300ms") {
		t.Errorf("%+v, %v", f, err)
	}
	broken := takes("broken", 1)
	broken.prepare = func(context.Context) error { return errors.New("no") }
	if _, err := contest(t.Context(), "race", 1, []entrant{takes("ours", 1), broken}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Error(err)
	}
}

func TestTreesAreInMemory(t *testing.T) {
	if _, err := inMemory("/proc"); err == nil || !strings.Contains(err.Error(), "-shm") {
		t.Error(err)
	}
	if _, err := openTreeBench(t.Context(), sizes{}); err == nil || !strings.Contains(err.Error(), "-berth") {
		t.Error(err)
	}
}
