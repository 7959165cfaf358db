package workspacesync

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// overdue holds the result of the last pass that removed versions of deleted sandboxes.
type overdue struct {
	mu  sync.Mutex
	n   int
	why error
	ch  chan struct{} // wakes Run, which then starts a pass soon
}

func (o *overdue) wake() chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ch == nil {
		o.ch = make(chan struct{}, 1)
	}
	return o.ch
}

// Overdue returns the number of deleted sandboxes whose versions could not be removed, and the last error.
func (s *Syncer) Overdue() (n int, why error) {
	s.overdue.mu.Lock()
	defer s.overdue.mu.Unlock()
	return s.overdue.n, s.overdue.why
}

// Intervals between passes of Run.
const (
	expireOften  = time.Second
	expireSoon   = 30 * time.Second // after an error of the store
	expireSeldom = 10 * time.Minute
)

// Run removes the versions of deleted sandboxes after their retention, until the context ends. A later pass, here
// or on another server, does the work that a crash or an error left undone.
func (s *Syncer) Run(ctx context.Context) {
	every := expireSeldom
	if s.o.Retention > 0 {
		every = min(max(s.o.Retention/10, expireOften), expireSeldom)
	}
	for {
		wait := every
		if err := s.Expire(ctx); err != nil && ctx.Err() == nil {
			s.log().WarnContext(ctx, "versions of deleted sandboxes could not be removed; it is tried again", "error", err)
			wait = min(every, expireSoon)
		}
		next := time.After(wait)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-s.overdue.wake():
				next = time.After(min(every, expireSoon))
			case <-next:
				waiting = false
			}
		}
	}
}

// runSoon makes Run start its next pass within expireSoon.
func (s *Syncer) runSoon() {
	select {
	case s.overdue.wake() <- struct{}{}:
	default:
	}
}

// mostRefused is the number of failures that end a pass, because the store will most likely refuse the rest, too.
const mostRefused = 10

// Expire removes the versions of sandboxes that were deleted longer ago than their retention, and of sandboxes that
// are marked for purge.
func (s *Syncer) Expire(ctx context.Context) error {
	failed, why := 0, error(nil)
	for after := ""; ; {
		due, err := s.o.Records.ListPurgeable(ctx, s.o.Retention, after, rowPage)
		if err != nil {
			return err
		}
		for _, sb := range due {
			if after = sb.ID; s.o.Known != nil && !s.o.Known(sb) {
				continue // the template is missing, so the prefix is unknown
			}
			if err := s.expire(ctx, sb); err != nil {
				failed, why = failed+1, err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if len(due) == 0 || failed >= mostRefused {
			break
		}
	}
	s.overdue.mu.Lock()
	s.overdue.n, s.overdue.why = failed, why
	s.overdue.mu.Unlock()
	return why
}

// expire removes the versions of one sandbox. Versions under a prefix that other sandboxes use stay. If the
// template shares the prefix, this sandbox counts as purged. Otherwise it is checked again later.
func (s *Syncer) expire(ctx context.Context, sb sandbox.Sandbox) error {
	if s.o.Plan(sb).Shared {
		return s.o.Records.MarkPurged(ctx, sb.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if sb.Purge == sandbox.PurgeUnknown && sb.Synced.Incarnation >= 0 {
		if purge, err := s.readOldPurgeMark(ctx, sb); err != nil || !purge {
			return err
		}
	}
	switch err := s.Purge(ctx, sb); {
	case fault.CodeOf(err) == api.CodeConflict:
		return nil
	case err != nil:
		return err
	}
	return s.o.Records.MarkPurged(ctx, sb.ID)
}

// tempForm matches the names of index files that are being written.
var tempForm = regexp.MustCompile(`^[0-9a-z-]+\.index\.tmp-[0-9]+$`)

// tempAge is the age from which an unfinished index file counts as abandoned. Writing one takes seconds.
const tempAge = time.Hour

// Sweep removes unfinished index files of killed servers. It must be called when a server starts.
func (s *Syncer) Sweep() {
	entries, _ := os.ReadDir(s.o.Dir) // the directory does not exist before the first save
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !tempForm.MatchString(e.Name()) || time.Since(info.ModTime()) < tempAge {
			continue
		}
		if err := os.Remove(filepath.Join(s.o.Dir, e.Name())); err != nil {
			s.log().Warn("remove an unfinished index", "file", e.Name(), "error", err)
		}
	}
}
