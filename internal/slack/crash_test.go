package slack_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// windows are the points at which a server is stopped.
var windows = []string{"slack-received", "slack-acked", "slack-posted", "slack-stream-started", "slack-turn-posted", "slack-streamed", "slack-finished", "slack-uploading", "slack-uploaded"}

// TestStoppedServerAnswersOnce stops one of two servers in the middle of its work, without a chance to tidy up; the
// other one continues. Every message is answered once, in order, and every file is there once.
func TestStoppedServerAnswersOnce(t *testing.T) {
	testkit.Proves(t, "T7")
	for _, window := range windows {
		t.Run(window, func(t *testing.T) {
			t.Parallel()
			w := makeWorld(t, store.Options{DatabaseURL: storetest.Postgres(t), LeaseTTL: 2 * time.Second})
			var once sync.Once
			die := make(chan struct{})
			hit := make(chan struct{})
			at := func(r *replica, point string) {
				if point != window {
					return
				}
				mine := false
				once.Do(func() { mine = true })
				if !mine {
					return
				}
				r.stop()
				close(hit)
				<-die // the process does nothing more
			}
			w.team.RefuseStreams(window == "slack-posted") // they are started instead of posted
			w.connect(w.start(at))
			w.start(at)
			t.Cleanup(func() { close(die) })
			testkit.Eventually(t, patience, func() error {
				if n := w.team.Connections(); n != 2 {
					return fmt.Errorf("%d connections", n)
				}
				return nil
			})
			ts := w.mention("slow artifact")
			select {
			case <-hit:
			case <-time.After(patience):
				t.Fatalf("%s was not reached: %s", window, w.show("C1", ts))
			}
			w.settled("C1", ts, "white_check_mark")
			next := w.team.Say("U1", "C1", ts, "and then")
			w.settled("C1", next, "white_check_mark")
			var texts []string
			seen := map[string]int{}
			for _, m := range w.ours("C1", ts) {
				if len(m.Files) == 0 {
					texts = append(texts, m.Text)
				}
				for _, f := range m.Files {
					seen[w.team.Files()[f].Name]++
				}
			}
			if got := strings.Join(texts, "|"); got != "answer to: slow artifact|answer to: and then" {
				t.Errorf("the answers are %q", got)
			}
			if seen["0.txt"] != 1 || seen["1.txt"] != 1 || len(seen) != 2 {
				t.Errorf("the files are there %v times", seen)
			}
			if n := len(w.turns.prompts()); n != 2 {
				t.Errorf("%d prompts", n)
			}
		})
	}
}

// TestUnrecordedEventComesAgain checks that a server which cannot record an event leaves it to another one.
func TestUnrecordedEventComesAgain(t *testing.T) {
	w := makeWorld(t, store.Options{DatabaseURL: storetest.Postgres(t), LeaseTTL: 2 * time.Second})
	w.web.AckTime = time.Second
	db := w.open()
	w.db = db
	w.connect(w.start(nil))
	testkit.Eventually(t, patience, func() error {
		if w.team.Connections() != 1 {
			return fmt.Errorf("no connection")
		}
		return nil
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	ts := w.mention("hello")
	testkit.Eventually(t, patience, func() error {
		for _, d := range w.team.Deliveries() {
			if d.Sent < 2 && d.Acked == 0 {
				return fmt.Errorf("%+v", d)
			}
		}
		return nil
	})
	w.db = nil
	w.start(nil)
	w.settled("C1", ts, "white_check_mark")
	w.one("C1", ts)
}
