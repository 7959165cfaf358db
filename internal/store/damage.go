package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// checkWithin limits how long Open waits for the check of the file. The check of a larger file continues in the
// background, and [DB.Health] reports its result.
var checkWithin = 10 * time.Second

// fileCheck checks SQLite's file for damage.
type fileCheck struct {
	path    string
	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup

	mu   sync.Mutex
	done chan struct{} // closed when the running or last check has ended
	busy bool
}

func newFileCheck(path string) *fileCheck {
	ctx, stop := context.WithCancel(context.Background())
	return &fileCheck{path: path, stop: stop, ctx: ctx}
}

// start begins a check unless one is running, and calls found with the result. Then it closes the channel.
func (c *fileCheck) start(pragma string, found func(damage error)) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy {
		return c.done
	}
	done := make(chan struct{})
	c.busy, c.done = true, done
	c.running.Go(func() {
		damage := c.run(pragma)
		if c.ctx.Err() == nil {
			found(damage)
		}
		c.mu.Lock()
		c.busy = false
		c.mu.Unlock()
		close(done)
	})
	return done
}

func (c *fileCheck) underWay() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}

func (c *fileCheck) close() {
	c.stop()
	c.running.Wait()
}

const damageLines = 5 // enough to identify the damaged parts

// run returns the damage, or nil if there is none or the check was stopped. It uses a separate connection, so that
// it reads the disk and not a cache.
func (c *fileCheck) run(pragma string) error {
	p, err := sqlitePool(c.path, 1, url.Values{"_query_only": {"1"}})
	if err != nil {
		return nil // the store's pools report connection errors
	}
	defer p.Close()
	lines, err := all(c.ctx, p, scanOne[string], fmt.Sprintf("pragma %s(%d)", pragma, damageLines))
	switch {
	case err != nil && sqliteBroken(err):
		return damaged(c.path, err)
	case err != nil || len(lines) == 1 && lines[0] == "ok":
		return nil
	}
	return damaged(c.path, errors.New(strings.Join(strings.Fields(strings.Join(lines, "; ")), " ")))
}

// damaged returns the error for a damaged file, with a hint how to repair it.
func damaged(path string, cause error) *fault.Error {
	name := filepath.Base(path)
	e := fault.Errorf("check database", api.CodeDatabaseDamaged, "%s is damaged: %w", path, cause)
	e.Hint = fmt.Sprintf("Stop the server, keep a copy of %[1]s, %[1]s-wal and %[1]s-shm, and put a backup in their place. Without a backup "+
		"'sqlite3 %[1]s .recover | sqlite3 recovered.db' saves the rows that can still be read. 'berth doctor' checks the file; "+
		"look for the cause, too (disk, memory, copies of a live file).", name)
	return e
}

// checkEmptied returns an error if the file has no bytes although a server has used it. SQLite would take it for a new
// database and remove the log beside it, which may have everything since the last checkpoint.
func checkEmptied(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() > 0 {
		return nil
	}
	for _, sign := range []string{path + "-wal", filepath.Join(filepath.Dir(path), HostFile)} {
		if info, err := os.Stat(sign); err == nil && info.Size() > 0 {
			e := damaged(path, errors.New("it is empty, and a server has used it before"))
			e.Hint += " To begin with an empty database, remove these files."
			return e
		}
	}
	return nil
}

// checkFile starts the check of the file and waits for it, at most checkWithin and at most half of the caller's
// time.
func (db *DB) checkFile(ctx context.Context) error {
	wait := checkWithin
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	done := db.file.start("quick_check", db.foundDamage)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
		return db.Health()
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// suspectDamage makes Health report a statement's error at once, and starts a check of the whole file.
func (db *DB) suspectDamage(err error) {
	if db.file == nil || !sqliteBroken(err) {
		return
	}
	db.health.mu.Lock()
	known := db.health.damage != nil || db.health.suspect != nil
	if !known {
		db.health.suspect = damaged(db.file.path, err)
	}
	db.health.mu.Unlock()
	if known {
		return
	}
	db.log.Error("the database file looks damaged; it is checked now", "file", db.file.path, "error", err)
	db.file.start("integrity_check", db.foundDamage)
}

// foundDamage records the result of a check.
func (db *DB) foundDamage(damage error) {
	if damage != nil && db.log != nil {
		db.log.Error("the database file is damaged", "file", db.file.path, "error", damage)
	}
	db.health.mu.Lock()
	defer db.health.mu.Unlock()
	db.health.damage, db.health.suspect = damage, nil
}
