package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// Those who commit often do not move SQLite's log themselves, and it does not grow for ever.
func TestSQLiteLogIsMovedInTheBackground(t *testing.T) {
	dir := t.TempDir()
	db := harness{"sqlite", store.Options{DataDir: dir, LeaseTTL: long}}.open(t)
	turn := begin(t, db, asking(talk(t, db)))
	l, _ := take(t, db, turn.ID, "a")
	event := fmt.Appendf(nil, `{"text":%q}`, bytes.Repeat([]byte("x"), 60<<10))
	const events = 30
	for i := range int64(events) {
		done, err := db.TurnRuns().Append(t.Context(), []store.TurnAppend{{Lease: l, Append: store.Append{After: i, To: i, Events: [][]byte{event}}}})
		noError(t, err)
		if !done[0] {
			t.Fatal("an event was refused")
		}
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		info, err := os.Stat(filepath.Join(dir, "berth.db"))
		if err == nil && info.Size() < events*int64(len(event)) {
			err = fmt.Errorf("the file has %d bytes of %d", info.Size(), events*len(event))
		}
		return err
	})
}
