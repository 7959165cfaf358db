package store

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// When a commit finds the write-ahead log long, SQLite moves the log into the database file; that commit and all later
// ones wait for the disk. The background checkpoint moves the log earlier, without blocking writers. It leaves pages
// that are written during the move for the next one. When the log reaches walPages, the next commit moves the rest and
// the log starts again.
const (
	walPages   = 16 << 10 // of 4 KiB
	checkEvery = 500 * time.Millisecond
)

// checkpoints moves the pages of SQLite's log into the database file, in the background.
type checkpoints struct {
	pool    *pool
	written chan struct{}
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newCheckpoints(p *pool) *checkpoints {
	ctx, stop := context.WithCancel(context.Background())
	c := &checkpoints{pool: p, written: make(chan struct{}, 1), stop: stop}
	c.running.Go(func() { c.run(ctx) })
	return c
}

// wrote reports that there are new pages to move.
func (c *checkpoints) wrote() {
	select {
	case c.written <- struct{}{}:
	default:
	}
}

func (c *checkpoints) run(ctx context.Context) {
	pause := time.NewTicker(checkEvery)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.written:
		}
		// If a checkpoint fails, the next checkpoint repeats it, or the commit that finds the log long.
		_, _ = c.pool.ExecContext(ctx, `pragma wal_checkpoint(passive)`)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

func (c *checkpoints) close() {
	c.stop()
	c.running.Wait()
}

// logRoom is the disk space reserved for the write-ahead log. Commits need no other space while the log is shorter, so
// that sandboxes can be deleted on a full disk.
const logRoom = 4 << 20

// keepRoom reserves logRoom for the log without changing the file's length. Some file systems cannot do this; then it
// does nothing.
func (db *DB) keepRoom() {
	f, err := os.OpenFile(db.file.path+"-wal", os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, logRoom), f.Close())
	}
	if err != nil {
		db.log.Debug("no space is reserved for the database's log", "error", err)
	}
}
