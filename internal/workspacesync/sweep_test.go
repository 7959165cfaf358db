package workspacesync_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/internal/workspacesync"
)

// A start removes the indexes that a killed server was writing, and nothing else.
func TestUnfinishedIndexesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	id := uuid.NewString()
	for name, age := range map[string]time.Duration{
		id + ".index": 2 * time.Hour, id + ".index.tmp-123456": 2 * time.Hour, id + ".index.tmp-7": 0,
		id + ".index.tmp-": 2 * time.Hour, "notes.tmp-1": 2 * time.Hour,
	} {
		path, at := filepath.Join(dir, name), time.Now().Add(-age)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	workspacesync.New(workspacesync.Options{Dir: dir}).Sweep()
	workspacesync.New(workspacesync.Options{Dir: filepath.Join(dir, "none")}).Sweep()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 4 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, id+".index.tmp-123456")); !os.IsNotExist(err) {
		t.Error("an unfinished index is left")
	}
}
