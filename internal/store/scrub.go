package store

import (
	"context"
	"errors"
	"time"
)

// SQLite leaves old text of a changed row in unused parts of its file and in the write-ahead log. After values were
// encrypted, or encrypted with a new secret, the file is rewritten and the log is emptied.

// requestScrub records that the file must be rewritten. It is called before the first value is changed.
func (s *Secrets) requestScrub(ctx context.Context) error {
	if s.db.lock == nil {
		return nil
	}
	return s.db.settings().put(ctx, settingScrub, "owed")
}

// scrub rewrites SQLite's file if that was requested. A failure does not prevent the start: it is repeated at the
// next start, and [Secrets.State] reports it.
func (s *Secrets) scrub(ctx context.Context) error {
	owed, err := s.db.settings().get(ctx, settingScrub)
	if err != nil || owed == "" {
		return s.db.fail("read settings", err)
	}
	if err := s.rewriteFile(ctx); err != nil {
		s.db.log.Warn("berth.db may still hold values as they were before they were encrypted; the next start tries to remove them again", "error", err)
		return nil
	}
	_, err = s.db.write.exec(ctx, `delete from settings where name = $1`, settingScrub)
	return s.db.fail("record scrub", err)
}

// scrubTime bounds the wait for readers that still use the log.
const scrubTime = 10 * time.Second

func (s *Secrets) rewriteFile(ctx context.Context) error {
	begun := time.Now()
	if _, err := s.db.write.ExecContext(ctx, `vacuum`); err != nil {
		return err
	}
	asked := time.Now()
	for {
		var busy, inLog, moved int
		err := s.db.write.QueryRowContext(ctx, `pragma wal_checkpoint(truncate)`).Scan(&busy, &inLog, &moved)
		if err == nil && busy == 0 {
			s.db.keepRoom()
			s.db.log.Info("berth.db was written anew, without values as they were before they were encrypted", "took", time.Since(begun).Round(time.Millisecond))
			return nil
		}
		if time.Since(asked) > scrubTime {
			return errors.Join(errors.New("the write-ahead log is in use"), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
