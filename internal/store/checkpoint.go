package store

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// SQLite moves its write-ahead log into the database file when a commit finds the log long, and that commit and
// all behind it wait for the disk. Whoever commits often has it moved in the background instead: writers go on
// meanwhile. What came during the move is left for the next one, and the little that is left when the log has
// grown to its end (walPages) for the commit that finds it so: then the log begins anew.
const (
	walPages   = 16 << 10 // of 4 KiB
	checkEvery = 500 * time.Millisecond
)

// checkpoints moves the log of a database in the background.
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

// wrote says that there is something to move.
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
		// One that fails is made up for by the next, or by the commit that finds the log long.
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

// logRoom is the space that the write-ahead log has for itself. Commits need no other space as long as the log is
// moved into the database file before it is longer, so that sandboxes can be deleted on a full disk.
const logRoom = 4 << 20

// keepRoom reserves logRoom for the log. The length of the file stays as it is. A file system that cannot do it
// goes without.
func (db *DB) keepRoom() {
	f, err := os.OpenFile(db.file.path+"-wal", os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, logRoom), f.Close())
	}
	if err != nil {
		db.log.Debug("no space is reserved for the database's log", "error", err)
	}
}
