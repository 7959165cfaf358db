package slack_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/sqlcount"
)

// TestIdleAsksNothing checks that a server without a workspace asks the database only whether there is one by now.
func TestIdleAsksNothing(t *testing.T) {
	sql := sqlcount.New(t, storetest.Postgres(t))
	w := makeWorld(t, store.Options{DatabaseURL: sql.URL, LeaseTTL: 10 * time.Minute})
	r := w.start(nil)
	lists, other := 0, []string{}
	testkit.Eventually(t, patience, func() error {
		for _, text := range sql.Take() {
			switch {
			case strings.Contains(text, "from slack_workspaces order by team"):
				lists++
			case strings.Contains(text, "slack_replies"), strings.Contains(text, "slack_events"):
				other = append(other, text)
			}
		}
		if lists < 3 {
			return fmt.Errorf("the workspaces were listed %d times", lists)
		}
		return nil
	})
	if len(other) > 0 {
		t.Errorf("it asks %q", other)
	}
	w.connect(r)
	w.settled("C1", w.mention("hello"), "white_check_mark")
}
