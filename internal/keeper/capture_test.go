package keeper_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// spooled is a world with a spool of so many bytes.
func spooled(t *testing.T, most int64) *world {
	t.Helper()
	w := newWorld(t)
	store, err := dirblob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if w.Spool, err = keeper.NewSpool(t.Context(), store, "", most); err != nil {
		t.Fatal(err)
	}
	return w
}

// turn writes a file and captures the workspace, while the store cannot be asked.
func (w *world) turn(s sandbox.Sandbox, n int) error {
	w.Helper()
	up := w.Store
	w.Store = nil // whatever asks it panics
	defer func() { w.Store = up }()
	w.write(s, fmt.Sprint("file-", n), fmt.Sprint(n))
	return w.Capture(w.Context(), s, fmt.Sprint("turn-", n), time.Now(), false, false)
}

// settle brings one turn's capture into the store and records it.
func (w *world) settle(s sandbox.Sandbox, n int) (sandbox.Sandbox, keeper.Saved) {
	w.Helper()
	id := fmt.Sprint("turn-", n)
	done, err := w.Settle(w.Context(), s, id, id)
	if err != nil {
		w.Fatalf("%s: %v", id, err)
	}
	s.Synced, _, _ = w.Record(w.Context(), s, done)
	if err := w.Settled(w.Context(), s, id); err != nil {
		w.Fatal(err)
	}
	return s, done
}

// files is how many files each version has, oldest first.
func (w *world) files(s sandbox.Sandbox) (counts []int) {
	w.Helper()
	for v, err := range w.Repo(s).Versions(w.Context()) {
		if err != nil {
			w.Fatal(err)
		}
		counts = append([]int{v.Files}, counts...)
	}
	return counts
}

func (w *world) want(s sandbox.Sandbox, counts ...int) {
	w.Helper()
	if got := w.files(s); fmt.Sprint(got) != fmt.Sprint(counts) {
		w.Errorf("the versions have %v files, want %v", got, counts)
	}
	if found, err := w.Repo(s).Verify(w.Context()); err != nil || len(found.Problems) > 0 {
		w.Errorf("%+v, %v", found, err)
	}
}

// Every turn that was captured while the store was away has a version of its own, in order. A turn that changed
// nothing has the one before it.
func TestCapturesBecomeVersions(t *testing.T) {
	testkit.Proves(t, "S7")
	w := spooled(t, 1<<30)
	s := w.restore(w.born(sandbox.Sandbox{}))
	for _, n := range []int{1, 2, 2, 3} {
		if err := w.turn(s, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Capture(t.Context(), s, "turn-4", time.Now(), false, false); err != nil {
		t.Fatal(err)
	}
	last := ""
	for n := 1; n <= 4; n++ {
		var done keeper.Saved
		if s, done = w.settle(s, n); done.Shared || done.Late || (done.Version == last) != (n == 4) || s.Synced.Version != done.Version {
			t.Errorf("turn %d: %+v, %+v", n, done, s.Synced)
		}
		last = done.Version
	}
	w.want(s, 1, 2, 3)
	if used := w.Spool.Used(); used != 0 {
		t.Errorf("the spool keeps %d bytes", used)
	}
	w.write(s, "file-5", "5")
	w.save(s)
	w.want(s, 1, 2, 3, 4)
}

// A process that dies on either side of a commit leaves one version.
func TestCaptureIsCommittedOnce(t *testing.T) {
	testkit.Proves(t, "S7")
	for _, point := range []string{"before-commit", "after-commit"} {
		w := spooled(t, 1<<30)
		s := w.restore(w.born(sandbox.Sandbox{}))
		for n := 1; n <= 2; n++ {
			if err := w.turn(s, n); err != nil {
				t.Fatal(err)
			}
		}
		died := errors.New("died")
		w.At = func(at, _ string) {
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
			_, _ = w.Settle(t.Context(), s, "turn-1", "")
		}()
		w.At = nil
		for n := 1; n <= 2; n++ {
			s, _ = w.settle(s, n)
		}
		w.want(s, 1, 2)
	}
}

// Whatever saves the workspace otherwise saves the captures before it, and a new instance has what was captured.
func TestSavesComeAfterCaptures(t *testing.T) {
	testkit.Proves(t, "S7", "S11")
	w := spooled(t, 1<<30)
	s := w.restore(w.born(sandbox.Sandbox{}))
	for n := 1; n <= 2; n++ {
		if err := w.turn(s, n); err != nil {
			t.Fatal(err)
		}
	}
	w.write(s, "file-3", "3")
	s = w.save(s)
	w.want(s, 1, 2, 3)
	for n := 1; n <= 2; n++ {
		if after, done := w.settle(s, n); done.Shared || after.Synced != s.Synced {
			t.Errorf("turn %d: %+v, %+v", n, done, after.Synced)
		}
	}
	w.want(s, 1, 2, 3)
	if err := w.turn(s, 4); err != nil {
		t.Fatal(err)
	}
	s = w.restore(w.born(s)) // the instance was lost
	w.says(s, "file-4", "4")
	w.want(s, 1, 2, 3, 4)
}

// A spool without room captures nothing, keeps nothing of what it began, and the workspace is saved all the same.
func TestSpoolWithoutRoom(t *testing.T) {
	testkit.Proves(t, "S7")
	w := spooled(t, 4<<10)
	s := w.restore(w.born(sandbox.Sandbox{}))
	if err := w.turn(s, 1); err != nil {
		t.Fatal(err)
	}
	used := w.Spool.Used()
	w.write(s, "large", strings.Repeat("x", 8<<10))
	if err := w.turn(s, 2); !errors.Is(err, keeper.ErrSpoolFull) {
		t.Errorf("captured in a spool without room: %v", err)
	}
	if w.Spool.Used() != used {
		t.Errorf("the spool has %d bytes, had %d", w.Spool.Used(), used)
	}
	s, _ = w.settle(s, 1)
	if _, err := w.Settle(t.Context(), s, "turn-2", ""); !errors.Is(err, keeper.ErrNotCaptured) {
		t.Errorf("settled what was not captured: %v", err)
	}
	w.save(s)
	w.want(s, 1, 3)
}

// A turn that was not captured shares the version of the next one that was.
func TestUncapturedTurnSharesAVersion(t *testing.T) {
	w := spooled(t, 1<<30)
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "file-1", "1")
	if err := w.turn(s, 2); err != nil {
		t.Fatal(err)
	}
	done, err := w.Settle(t.Context(), s, "turn-1", "")
	if err != nil || !done.Shared {
		t.Errorf("%+v, %v", done, err)
	}
	if _, own := w.settle(s, 2); own.Version != done.Version || own.Shared {
		t.Errorf("%+v, shared with %+v", own, done)
	}
	w.want(s, 2)
}

// A capture on top of which others have saved is merged with theirs.
func TestCaptureIsMergedWithWhatOthersSaved(t *testing.T) {
	testkit.Proves(t, "S15")
	w := spooled(t, 1<<30)
	w.plan.Shared = true
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "file-0", "0")
	s = w.save(s)
	if err := w.turn(s, 1); err != nil {
		t.Fatal(err)
	}
	theirs := openDir(t, t.TempDir())
	pulled, err := w.Repo(s).Pull(t.Context(), theirs, nil, workspace.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Repo(s).Push(t.Context(), openDir(t, t.TempDir()), pulled.Index, workspace.PushOptions{Version: "theirs"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Settle(t.Context(), s, "turn-1", ""); !errors.Is(err, workspace.ErrMoved) {
		t.Fatalf("settled over what others saved: %v", err)
	}
	s.Synced, _, err = w.Sync(t.Context(), s, keeper.SyncOptions{AllowMassDelete: true})
	if err != nil {
		t.Fatal(err)
	}
	w.says(s, "file-1", "1")
	if _, done := w.settle(s, 1); !done.Shared || done.Version != s.Synced.Version {
		t.Errorf("%+v, want version %s", done, s.Synced.Version)
	}
}

// A turn whose instance is gone, and to whose workspace another sandbox saved before the turn could be saved, has a
// version of its own: the history lists it and says why, and the newest version stays the other's.
func TestCaptureOfAGoneInstanceIsKeptBesideOthers(t *testing.T) {
	testkit.Proves(t, "S7")
	for _, begun := range []bool{true, false} { // with a version in common, or without any
		w := spooled(t, 1<<30)
		w.plan.Shared = true
		s := w.restore(w.born(sandbox.Sandbox{}))
		other := s
		if begun {
			w.write(s, "common", "c")
			s = w.save(s)
		}
		for n := 1; n <= 2; n++ {
			if err := w.turn(s, n); err != nil {
				t.Fatal(err)
			}
		}
		other = w.born(other)
		other.ID = "other"
		other = w.restore(other)
		w.write(other, "theirs", "t")
		other = w.save(other)
		gone := s
		gone.Instance, gone.State = "", sandbox.Terminated
		seen := map[string]bool{}
		for range 2 { // as after a crash before it was recorded
			for n := 1; n <= 2; n++ {
				done, err := w.Settle(t.Context(), gone, fmt.Sprint("turn-", n), fmt.Sprint("turn ", n))
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
			if mark, _, err := w.Bring(t.Context(), into, gone, id); err != nil {
				t.Errorf("begun %v: bring %s: %v", begun, id, err)
			} else {
				into.Synced = mark
			}
		}
		w.says(into, "file-1", "1")
	}
}
