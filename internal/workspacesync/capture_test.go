package workspacesync_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
	"github.com/berthdev/berth/internal/workspacesync"
)

// spooled is a world with a spool of so many bytes.
func spooled(t *testing.T, most int64) *world {
	t.Helper()
	w := newWorld(t)
	store, err := dirblob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if w.Opts().Spool, err = workspacesync.NewSpool(t.Context(), store, "", most); err != nil {
		t.Fatal(err)
	}
	return w
}

// turn writes a file and captures the workspace, while the store cannot be asked.
func (w *world) turn(sb sandbox.Sandbox, n int) error {
	w.Helper()
	up := w.Opts().Store
	w.Opts().Store = nil // whatever asks it panics
	defer func() { w.Opts().Store = up }()
	w.write(sb, fmt.Sprint("file-", n), fmt.Sprint(n))
	return w.Capture(w.Context(), sb, fmt.Sprint("turn-", n), time.Now(), false, false)
}

// settle brings one turn's capture into the store and records it.
func (w *world) settle(sb sandbox.Sandbox, n int) (sandbox.Sandbox, workspacesync.Saved) {
	w.Helper()
	id := fmt.Sprint("turn-", n)
	done, err := w.CommitCapture(w.Context(), sb, id, id)
	if err != nil {
		w.Fatalf("%s: %v", id, err)
	}
	sb.Synced, _, _ = w.MarkAfterCommit(w.Context(), sb, done)
	if err := w.DropCapture(w.Context(), sb, id); err != nil {
		w.Fatal(err)
	}
	return sb, done
}

// files is how many files each version has, oldest first.
func (w *world) files(sb sandbox.Sandbox) (counts []int) {
	w.Helper()
	for v, err := range w.Repo(sb).Versions(w.Context()) {
		if err != nil {
			w.Fatal(err)
		}
		counts = append([]int{v.Files}, counts...)
	}
	return counts
}

func (w *world) want(sb sandbox.Sandbox, counts ...int) {
	w.Helper()
	if got := w.files(sb); fmt.Sprint(got) != fmt.Sprint(counts) {
		w.Errorf("the versions have %v files, want %v", got, counts)
	}
	if found, err := w.Repo(sb).Verify(w.Context()); err != nil || len(found.Problems) > 0 {
		w.Errorf("%+v, %v", found, err)
	}
}

// Every turn that was captured while the store was away has a version of its own, in order. A turn that changed
// nothing has the one before it.
func TestCapturesBecomeVersions(t *testing.T) {
	testkit.Proves(t, "S7")
	w := spooled(t, 1<<30)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	for _, n := range []int{1, 2, 2, 3} {
		if err := w.turn(sb, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Capture(t.Context(), sb, "turn-4", time.Now(), false, false); err != nil {
		t.Fatal(err)
	}
	last := ""
	for n := 1; n <= 4; n++ {
		var done workspacesync.Saved
		if sb, done = w.settle(sb, n); done.Shared || done.Late || (done.Version == last) != (n == 4) || sb.Synced.Version != done.Version {
			t.Errorf("turn %d: %+v, %+v", n, done, sb.Synced)
		}
		last = done.Version
	}
	w.want(sb, 1, 2, 3)
	if used := w.Opts().Spool.Used(); used != 0 {
		t.Errorf("the spool keeps %d bytes", used)
	}
	w.write(sb, "file-5", "5")
	w.save(sb)
	w.want(sb, 1, 2, 3, 4)
}

// The save behind a turn is logged as any other: once when its files are read, and once when they are in the store.
func TestCapturesAreLogged(t *testing.T) {
	testkit.Proves(t, "S10")
	w := spooled(t, 1<<30)
	var log bytes.Buffer
	w.Opts().Log = slog.New(slog.NewJSONHandler(&log, nil))
	sb := w.restore(w.born(sandbox.Sandbox{}))
	if err := w.turn(sb, 1); err != nil {
		t.Fatal(err)
	}
	read := log.String()
	log.Reset()
	_, done := w.settle(sb, 1)
	for message, text := range map[string]string{"workspace captured": read, "workspace pushed": log.String()} {
		stats := statsLogged(t, text, message)
		if stats["files_uploaded"] != 1 || stats["bytes_transferred"] == 0 || stats["duration"] == 0 {
			t.Errorf("%s: %v\n%s", message, stats, text)
		}
	}
	if state := done.Version + "/.sandbox-state"; !strings.Contains(log.String(), "state file written") || !strings.Contains(log.String(), state) {
		t.Errorf("the write of %s is not logged:\n%s", state, &log)
	}
}

// statsLogged returns the stats of the record with that message.
func statsLogged(t *testing.T, text, message string) map[string]float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		var record struct {
			Msg   string
			Stats map[string]float64
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.Msg == message {
			return record.Stats
		}
	}
	return nil
}

// A process that dies on either side of a commit leaves one version.
func TestCaptureIsCommittedOnce(t *testing.T) {
	testkit.Proves(t, "S7")
	for _, point := range []string{"before-commit", "after-commit"} {
		w := spooled(t, 1<<30)
		sb := w.restore(w.born(sandbox.Sandbox{}))
		for n := 1; n <= 2; n++ {
			if err := w.turn(sb, n); err != nil {
				t.Fatal(err)
			}
		}
		died := errors.New("died")
		w.Opts().At = func(at, _ string) {
			if at == point {
				panic(died)
			}
		}
		func() {
			defer func() {
				if recover() != died {
					t.Errorf("%s was not reached", point)
				}
			}()
			_, _ = w.CommitCapture(t.Context(), sb, "turn-1", "")
		}()
		w.Opts().At = nil
		for n := 1; n <= 2; n++ {
			sb, _ = w.settle(sb, n)
		}
		w.want(sb, 1, 2)
	}
}

// Whatever saves the workspace otherwise saves the captures before it, and a new instance has what was captured.
func TestSavesComeAfterCaptures(t *testing.T) {
	testkit.Proves(t, "S7", "S11")
	w := spooled(t, 1<<30)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	for n := 1; n <= 2; n++ {
		if err := w.turn(sb, n); err != nil {
			t.Fatal(err)
		}
	}
	w.write(sb, "file-3", "3")
	sb = w.save(sb)
	w.want(sb, 1, 2, 3)
	for n := 1; n <= 2; n++ {
		if after, done := w.settle(sb, n); done.Shared || after.Synced != sb.Synced {
			t.Errorf("turn %d: %+v, %+v", n, done, after.Synced)
		}
	}
	w.want(sb, 1, 2, 3)
	if err := w.turn(sb, 4); err != nil {
		t.Fatal(err)
	}
	sb = w.restore(w.born(sb)) // the instance was lost
	w.says(sb, "file-4", "4")
	w.want(sb, 1, 2, 3, 4)
}

// A spool without room captures nothing, keeps nothing of what it began, and the workspace is saved all the same.
func TestSpoolWithoutRoom(t *testing.T) {
	testkit.Proves(t, "S7")
	w := spooled(t, 4<<10)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	if err := w.turn(sb, 1); err != nil {
		t.Fatal(err)
	}
	used := w.Opts().Spool.Used()
	w.write(sb, "large", strings.Repeat("x", 8<<10))
	if err := w.turn(sb, 2); !errors.Is(err, workspacesync.ErrSpoolFull) {
		t.Errorf("captured in a spool without room: %v", err)
	}
	if w.Opts().Spool.Used() != used {
		t.Errorf("the spool has %d bytes, had %d", w.Opts().Spool.Used(), used)
	}
	sb, _ = w.settle(sb, 1)
	if _, err := w.CommitCapture(t.Context(), sb, "turn-2", ""); !errors.Is(err, workspacesync.ErrNotCaptured) {
		t.Errorf("settled what was not captured: %v", err)
	}
	w.save(sb)
	w.want(sb, 1, 3)
}

// A turn that was not captured shares the version of the next one that was.
func TestUncapturedTurnSharesAVersion(t *testing.T) {
	w := spooled(t, 1<<30)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "file-1", "1")
	if err := w.turn(sb, 2); err != nil {
		t.Fatal(err)
	}
	done, err := w.CommitCapture(t.Context(), sb, "turn-1", "")
	if err != nil || !done.Shared {
		t.Errorf("%+v, %v", done, err)
	}
	if _, own := w.settle(sb, 2); own.Version != done.Version || own.Shared {
		t.Errorf("%+v, shared with %+v", own, done)
	}
	w.want(sb, 2)
}

// A capture on top of which others have saved is merged with theirs.
func TestCaptureIsMergedWithWhatOthersSaved(t *testing.T) {
	testkit.Proves(t, "S15")
	w := spooled(t, 1<<30)
	w.plan.Shared = true
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "file-0", "0")
	sb = w.save(sb)
	if err := w.turn(sb, 1); err != nil {
		t.Fatal(err)
	}
	theirs := openDir(t, t.TempDir())
	pulled, err := w.Repo(sb).Pull(t.Context(), theirs, nil, workspace.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Repo(sb).Push(t.Context(), openDir(t, t.TempDir()), pulled.Index, workspace.PushOptions{Version: "theirs"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.CommitCapture(t.Context(), sb, "turn-1", ""); !errors.Is(err, workspace.ErrMoved) {
		t.Fatalf("settled over what others saved: %v", err)
	}
	sb.Synced, _, err = w.Sync(t.Context(), sb, workspacesync.SyncOptions{AllowMassDelete: true})
	if err != nil {
		t.Fatal(err)
	}
	w.says(sb, "file-1", "1")
	if _, done := w.settle(sb, 1); !done.Shared || done.Version != sb.Synced.Version {
		t.Errorf("%+v, want version %s", done, sb.Synced.Version)
	}
}

// A turn whose instance is gone, and to whose workspace another sandbox saved before the turn could be saved, has a
// version of its own: the history lists it and says why, and the newest version stays the other's.
func TestCaptureOfAGoneInstanceIsKeptBesideOthers(t *testing.T) {
	testkit.Proves(t, "S7")
	for _, begun := range []bool{true, false} { // with a version in common, or without any
		w := spooled(t, 1<<30)
		w.plan.Shared = true
		sb := w.restore(w.born(sandbox.Sandbox{}))
		other := sb
		if begun {
			w.write(sb, "common", "c")
			sb = w.save(sb)
		}
		for n := 1; n <= 2; n++ {
			if err := w.turn(sb, n); err != nil {
				t.Fatal(err)
			}
		}
		other = w.born(other)
		other.ID = "other"
		other = w.restore(other)
		w.write(other, "theirs", "t")
		other = w.save(other)
		gone := sb
		gone.Instance, gone.State = "", sandbox.Terminated
		seen := map[string]bool{}
		for range 2 { // as after a crash before it was recorded
			for n := 1; n <= 2; n++ {
				done, err := w.CommitCapture(t.Context(), gone, fmt.Sprint("turn-", n), fmt.Sprint("turn ", n))
				if err != nil || !done.Beside {
					t.Fatalf("begun %v, turn %d: %+v, %v", begun, n, done, err)
				}
				seen[done.Version] = true
				v, m, err := w.Repo(gone).Version(t.Context(), done.Version)
				if err != nil || !strings.Contains(v.Note, "not part of later versions") || !slices.ContainsFunc(m.Entries, func(e workspace.Entry) bool { return e.Path == fmt.Sprint("file-", n) }) {
					t.Errorf("begun %v, turn %d: %+v, %v", begun, n, v, err)
				}
			}
		}
		if v, _, err := w.Repo(other).Version(t.Context(), ""); err != nil || v.ID != other.Synced.Version {
			t.Errorf("begun %v: the newest version is %+v, %v", begun, v, err)
		}
		if n := len(w.files(gone)); len(seen) != 2 || begun && n != 4 || !begun && n != 3 {
			t.Errorf("begun %v: %d versions, of turns %v", begun, n, seen)
		}
		if found, err := w.Repo(gone).Verify(t.Context()); err != nil || len(found.Problems) > 0 {
			t.Errorf("begun %v: %+v, %v", begun, found, err)
		}
		into := w.restore(w.born(sandbox.Sandbox{Incarnation: 5}))
		for id := range seen { // each can be brought back
			if mark, _, err := w.RestoreVersion(t.Context(), into, gone, id); err != nil {
				t.Errorf("begun %v: bring %s: %v", begun, id, err)
			} else {
				into.Synced = mark
			}
		}
		w.says(into, "file-1", "1")
	}
}
